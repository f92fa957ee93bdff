/* He and Glorot initialization from a layer's fan-in and fan-out. */
#include <clade/graph.h>

#include <math.h>

static clade_initial normal(double deviation) { return (clade_initial){CLADE_INIT_NORMAL, 0, deviation}; }
static clade_initial uniform(double bound) { return (clade_initial){CLADE_INIT_UNIFORM, -bound, bound}; }

clade_initial clade_he_normal(int64_t in) { return normal(sqrt(2 / (double)in)); }
clade_initial clade_he_uniform(int64_t in) { return uniform(sqrt(6 / (double)in)); }
clade_initial clade_glorot_normal(int64_t in, int64_t out) { return normal(sqrt(2 / ((double)in + (double)out))); }
clade_initial clade_glorot_uniform(int64_t in, int64_t out) { return uniform(sqrt(6 / ((double)in + (double)out))); }
clade_initial clade_orthogonal(double gain) { return (clade_initial){CLADE_INIT_ORTHOGONAL, gain, 0}; }
