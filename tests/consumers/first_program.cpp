// The C++20 program of docs/first-program.md: options are designated.
#include <clade/clade.hpp>
#include <cstdio>

int main() try {
  clade::device device = clade::find_device(); // CLADE_DEVICE, or the best there is

  clade::graph g = clade::new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 4));
  clade_val h = clade_relu(g, clade::nn_linear(g, "hidden", x, {.out = 8}));
  clade_output(g, "p", clade_softmax(g, clade::nn_linear(g, "last", h, {.out = 3}), -1));

  clade::func func = clade::compile(g, device); // an error in the graph appears here
  clade::vars vars = clade::new_vars(func, 42); // weights and biases, filled by a seed
  clade::run run = clade::new_run(func, vars);

  float in[2][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}}, p[2][3];
  clade_ticket ticket = clade::execute(run, {{.name = "x", .data = in, .bytes = sizeof in}});
  clade::read(run, ticket, "p", p, sizeof p); // waits
  for (auto &row : p) std::printf("%.4f %.4f %.4f\n", double(row[0]), double(row[1]), double(row[2]));
} catch (const clade::error &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
