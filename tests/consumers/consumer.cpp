// User program in C++17, with options by assignment: 2 relu(x w) + 0 bias on the default device, for a symbolic
// batch size; explicit zeros in options; and exceptions.
#include <clade/clade.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>

static void compute(clade_device *device, float (&y)[4]) {
  static const float w[] = {1, -1, 2, -2, 3, 3}, x[] = {1, 1, 1, 0, 2, -1}, bias[] = {NAN, NAN};
  clade::graph g = clade::new_graph();
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  clade_gemm_opt opt;
  opt.alpha = 2;
  opt.beta = 0; // so the NaN of the bias must not appear
  opt.bias = clade_constant(g, CLADE_F32, CLADE_SHAPE(2), bias);
  clade_val product = clade::gemm(g, in, clade_constant(g, CLADE_F32, CLADE_SHAPE(3, 2), w), opt);
  clade_output(g, "y", clade_relu(g, product));
  clade::func func = clade::compile(g, device), two = clade::specialize(func, {{"batch", 2}});
  clade_run_opt slots;
  slots.slots = 1;
  clade::run run = clade::new_run(two, nullptr, slots);
  clade::read(run, clade::execute(run, {{"x", x, sizeof x, nullptr}}), "y", y, sizeof y);
}

// Whether the default is `unset`, and an explicit zero is kept.
template <class Opt, class Member, class Read> static bool zero(Member Opt::*member, double unset, Read read) {
  Opt opt;
  const bool was = std::fabs(read(opt) - unset) <= 1e-7 * std::fabs(unset);
  opt.*member = 0;
  return was && std::fpclassify(read(opt)) == FP_ZERO;
}

static double lr_of(const clade_optimizer &o) { return o.lr; }

static bool zeros() {
  const auto adam = [](int i) { return [i](const clade_adam_opt &o) { return clade::adam(o).number[i]; }; };
  const auto adamw = [](int i) { return [i](const clade_adamw_opt &o) { return clade::adamw(o).number[i]; }; };
  const auto rmsprop = [](int i) { return [i](const clade_rmsprop_opt &o) { return clade::rmsprop(o).number[i]; }; };
  return zero(&clade_sgd_opt::lr, 0.01, [](const clade_sgd_opt &o) { return lr_of(clade::sgd(o)); }) &&
         zero(&clade_adam_opt::lr, 0.001, [](const clade_adam_opt &o) { return lr_of(clade::adam(o)); }) &&
         zero(&clade_adam_opt::beta1, 0.9, adam(0)) && zero(&clade_adam_opt::beta2, 0.999, adam(1)) &&
         zero(&clade_adam_opt::eps, 1e-8, adam(2)) &&
         zero(&clade_adamw_opt::lr, 0.001, [](const clade_adamw_opt &o) { return lr_of(clade::adamw(o)); }) &&
         zero(&clade_adamw_opt::beta1, 0.9, adamw(0)) && zero(&clade_adamw_opt::beta2, 0.999, adamw(1)) &&
         zero(&clade_adamw_opt::eps, 1e-8, adamw(2)) &&
         zero(&clade_adamw_opt::weight_decay, 0.01,
              [](const clade_adamw_opt &o) { return clade::adamw(o).weight_decay; }) &&
         zero(&clade_rmsprop_opt::lr, 0.01, [](const clade_rmsprop_opt &o) { return lr_of(clade::rmsprop(o)); }) &&
         zero(&clade_rmsprop_opt::alpha, 0.99, rmsprop(0)) && zero(&clade_rmsprop_opt::eps, 1e-8, rmsprop(1)) &&
         zero(&clade_step_decay_opt::factor, 0.1,
              [](const clade_step_decay_opt &o) { return clade::step_decay(o).factor; }) &&
         zero(&clade_one_cycle_opt::start, 0.04,
              [](const clade_one_cycle_opt &o) { return clade::one_cycle(o).start; }) &&
         zero(&clade_one_cycle_opt::end, 4e-6, [](const clade_one_cycle_opt &o) { return clade::one_cycle(o).end; }) &&
         zero(&clade_one_cycle_opt::peak_at, 0.3, [](clade_one_cycle_opt o) {
           o.steps = 1000;
           return double(clade::one_cycle(o).peak) / 1000;
         });
}

int main() try {
  float y[4] = {};
  compute(clade::find_device(), y);
  std::printf("clade %s: %g %g %g %g\n", clade_version(), double(y[0]), double(y[1]), double(y[2]), double(y[3]));
  if (!(y[0] == 12 && y[1] == 0 && y[2] == 2 && y[3] == 0)) return 1;
  if (!zeros()) return std::fprintf(stderr, "a zero is none\n"), 1;
  try {
    clade::find_device("no such device");
    return 1;
  } catch (const clade::error &e) { return !(e.status == CLADE_NOT_FOUND && std::strstr(e.what(), "no such device")); }
} catch (const clade::error &e) {
  std::fprintf(stderr, "%s: %s\n", clade_status_name(e.status), e.what());
  return 1;
}
