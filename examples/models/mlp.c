/* A perceptron of three layers, built with the public API. */
#include "models/mlp.h"

#include "models/models.h"

clade_val mlp(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_val h = clade_flatten(g, x, 1);
  h = clade_relu(g, clade_nn_linear(g, "fc1", h, .out = mlp_width[1]));
  h = clade_relu(g, clade_nn_linear(g, "fc2", h, .out = mlp_width[2]));
  return clade_nn_linear(g, "fc3", h, .out = classes);
}

clade_status mlp_graph(clade_graph **out) {
  clade_graph *g;
  clade_status status = clade_graph_new(&g);
  if (status != CLADE_OK) return status;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), MLP_IN));
  clade_output(g, "p", clade_softmax(g, mlp(g, x, MLP_OUT, NULL), -1));
  *out = g; /* an error above stays in the graph; clade_compile returns it */
  return CLADE_OK;
}

void mlp_images(uint64_t seed, int64_t batch, float *x) {
  uint64_t state = seed + 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < batch * MLP_IN; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)(state >> 40) * 0x1p-24f;
  }
}
