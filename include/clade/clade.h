/* All public headers of C but <clade/opencl.h> and <clade/mpi.h>. */
#ifndef CLADE_CLADE_H
#define CLADE_CLADE_H

#include <clade/comm.h>
#include <clade/data.h>
#include <clade/device.h>
#include <clade/func.h>
#include <clade/graph.h>
#include <clade/init.h>
#include <clade/io.h>
#include <clade/nn.h>
#include <clade/op.h>
#include <clade/ops.h>
#include <clade/optim.h>
#include <clade/options.h>
#include <clade/prune.h>
#include <clade/quantize.h>
#include <clade/run.h>
#include <clade/status.h>
#include <clade/tensor.h>
#include <clade/train.h>
#include <clade/tune.h>
#include <clade/types.h>

#endif
