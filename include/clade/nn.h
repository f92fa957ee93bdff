/* Builders for networks: convolution and pooling, and the layers that make parameters. As in ops.h, a macro's last
 * plain argument is followed by the options: clade_conv2d(g, x, w, .pad = {1, 1}). Zero means unset. */
#ifndef CLADE_NN_H
#define CLADE_NN_H

#include <clade/ops.h>

CLADE_BEGIN_DECLS

CLADE_END_DECLS
#endif
