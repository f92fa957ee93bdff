// Clade for C++17 and C++20. The functions of this namespace have the names of C's calls with options, and take the
// options as an aggregate, the last argument:
//
//     clade::conv2d(g, x, w, {.pad = {1, 1}})                                                    C++20
//     clade_conv2d_opt o; o.pad[0] = o.pad[1] = 1; clade::conv2d(g, x, w, o);                     C++17
//
// Handles release objects, and convert to the pointers that C's functions take: clade_softmax(g, h, -1). Functions that
// make objects or wait for them throw clade::error. See docs/c-api.md.
#ifndef CLADE_CLADE_HPP
#define CLADE_CLADE_HPP

#include <clade/clade.h>

#include <memory>
#include <stdexcept>

namespace clade {

// A failure: what() is the message, `status` the status.
class error : public std::runtime_error {
public:
  explicit error(clade_status code) : std::runtime_error(clade_last_error()), status(code) {}
  const clade_status status;
};

// Throws clade::error unless the status is CLADE_OK.
inline void check(clade_status status) {
  if (status != CLADE_OK) throw error(status);
}

// ---- objects ----
// Owns an object and releases it at the end of its life. Movable, convertible to the object's pointer.
template <class T, void (*release)(T *)> class handle {
public:
  handle() = default;
  explicit handle(T *object) : held(object) {} // takes ownership
  operator T *() const { return held.get(); }
  T *get() const { return held.get(); }

private:
  struct releaser {
    void operator()(T *object) const { release(object); }
  };
  std::unique_ptr<T, releaser> held;
};

// The handles of Clade's objects.
using device = handle<clade_device, clade_device_release>;
using tensor = handle<clade_tensor, clade_tensor_release>;
using graph = handle<clade_graph, clade_graph_release>;
using func = handle<clade_func, clade_func_release>;
using vars = handle<clade_vars, clade_vars_release>;
using run = handle<clade_run, clade_run_free>;
using dataset = handle<clade_dataset, clade_dataset_release>;
using loader = handle<clade_loader, clade_loader_free>;
using pruning = handle<clade_pruning, clade_pruning_free>;
using quantization = handle<clade_quantization, clade_quantization_free>;

// Calls a C function whose last argument is the place for a new object, and returns the object's handle:
// `made<func>(clade_func_specialize, f, n, dims)`.
template <class Handle, class Call, class... Arguments> Handle made(Call call, Arguments... arguments) {
  decltype(Handle().get()) object = nullptr;
  check(call(arguments..., &object));
  return Handle(object);
}

// Calls that make objects, execute a run and read its outputs. Failures throw clade::error.
inline device find_device(const char *spec = nullptr) { return made<device>(clade_device_find, spec); }
inline graph new_graph() { return made<graph>(clade_graph_new); }
inline vars new_vars(const clade_func *f, uint64_t seed) { return made<vars>(clade_vars_new, f, seed); }
inline dataset open_dataset(const char *spec, bool train) { return made<dataset>(clade_dataset_open, spec, train); }

inline func compile(clade_graph *g, clade_device *d, clade_compile_opt opt = {}) {
  clade_func *object = nullptr;
  opt.out = &object;
  check(clade_compile_(g, d, &opt));
  return func(object);
}
inline func specialize(clade_func *f, std::initializer_list<clade_dim_value> dims) {
  return made<func>(clade_func_specialize, f, int(dims.size()), dims.begin());
}
inline run new_run(clade_func *f, clade_vars *v, clade_run_opt opt = {}) {
  clade_run *object = nullptr;
  opt.out = &object;
  check(clade_run_new_(f, v, &opt));
  return run(object);
}
inline loader new_loader(clade_dataset *set, clade_loader_opt opt = {}) {
  clade_loader *object = nullptr;
  opt.out = &object;
  check(clade_loader_new_(set, &opt));
  return loader(object);
}
inline pruning prune_channels(const clade_graph *g, const clade_vars *v, clade_prune_opt opt) {
  clade_pruning *object = nullptr;
  opt.out = &object;
  check(clade_prune_channels_(g, v, &opt));
  return pruning(object);
}
inline quantization new_quantization(clade_graph *g, clade_device *d, clade_vars *v, clade_quantization_opt opt = {}) {
  clade_quantization *object = nullptr;
  opt.out = &object;
  check(clade_quantization_new_(g, d, v, &opt));
  return quantization(object);
}
inline clade_ticket execute(clade_run *r, std::initializer_list<clade_feed> feeds) {
  clade_ticket ticket = 0;
  check(clade_execute(r, int(feeds.size()), feeds.begin(), &ticket));
  return ticket;
}
inline void read(clade_run *r, clade_ticket ticket, const char *name, void *to, size_t bytes) {
  check(clade_read(r, ticket, name, to, bytes));
}

// ---- the process, files ----
// Settings, tuning and files. Failures throw clade::error.
inline void init(const clade_init_opt &opt) { check(clade_init_(&opt)); }
inline void tune(clade_func *f, clade_tune_mode mode, clade_tune_opt opt = {}) {
  opt.mode = mode;
  check(clade_tune_(f, &opt));
}
inline void vars_save(const clade_vars *v, const char *path, clade_vars_file_opt opt = {}) {
  opt.path = path;
  check(clade_vars_save_(v, &opt));
}
inline void vars_load(clade_vars *v, const char *path, clade_vars_file_opt opt = {}) {
  opt.path = path;
  check(clade_vars_load_(v, &opt));
}
inline void checkpoint_save(clade_checkpoint_dir *dir, const clade_vars *v, int64_t step, const char *text,
                            clade_checkpoint_opt opt = {}) {
  opt.text = text;
  check(clade_checkpoint_save_(dir, v, step, &opt));
}

// ---- optimizers, schedules, training ----
// Optimizers, schedules and training steps, by the names of <clade/optim.h>.
inline clade_optimizer sgd(const clade_sgd_opt &opt = {}) { return clade_sgd_(&opt); }
inline clade_optimizer adam(const clade_adam_opt &opt = {}) { return clade_adam_(&opt); }
inline clade_optimizer adamw(const clade_adamw_opt &opt = {}) { return clade_adamw_(&opt); }
inline clade_optimizer rmsprop(const clade_rmsprop_opt &opt = {}) { return clade_rmsprop_(&opt); }
inline clade_schedule constant_rate(const clade_constant_rate_opt &opt = {}) { return clade_constant_rate_(&opt); }
inline clade_schedule step_decay(const clade_step_decay_opt &opt) { return clade_step_decay_(&opt); }
inline clade_schedule cosine(const clade_cosine_opt &opt) { return clade_cosine_(&opt); }
inline clade_schedule one_cycle(const clade_one_cycle_opt &opt) { return clade_one_cycle_(&opt); }
inline void minimize(clade_graph *g, clade_val loss, clade_minimize_opt opt = {}) {
  opt.loss = loss;
  check(clade_minimize_(g, &opt));
}
inline void minimize_sums(clade_graph *g, const clade_graph *model, clade_minimize_opt opt = {}) {
  opt.model = model;
  check(clade_minimize_(g, &opt));
}
// Trains a model. Free the contents of the result by clade_train_result_free.
inline clade_train_result train(const clade_trainer &trainer) {
  clade_train_result result{};
  result.size = sizeof result;
  check(clade_train(&trainer, &result, nullptr));
  return result;
}

// ---- ops ----
// Builders of <clade/ops.h> and <clade/nn.h>. They do not throw: the first error stays in the graph.
inline clade_val sum(clade_graph *g, clade_val x, clade_reduce_opt opt = {}) {
  opt.x = x;
  return clade_sum_(g, &opt);
}
inline clade_val mean(clade_graph *g, clade_val x, clade_reduce_opt opt = {}) {
  opt.x = x;
  return clade_mean_(g, &opt);
}
inline clade_val reduce_max(clade_graph *g, clade_val x, clade_reduce_opt opt = {}) {
  opt.x = x;
  return clade_reduce_max_(g, &opt);
}
inline clade_val reduce_min(clade_graph *g, clade_val x, clade_reduce_opt opt = {}) {
  opt.x = x;
  return clade_reduce_min_(g, &opt);
}
inline clade_val gather(clade_graph *g, clade_val x, clade_val ids, clade_gather_opt opt = {}) {
  opt.ids = ids;
  return clade_gather_(g, x, &opt);
}
inline clade_val scatter_add(clade_graph *g, clade_val x, clade_val ids, clade_val updates,
                             clade_scatter_add_opt opt = {}) {
  opt.updates = updates;
  return clade_scatter_add_(g, x, ids, &opt);
}
inline clade_val gemm(clade_graph *g, clade_val a, clade_val b, clade_gemm_opt opt = {}) {
  opt.b = b;
  return clade_gemm_(g, a, &opt);
}
inline clade_val fft(clade_graph *g, clade_val x, clade_fft_opt opt = {}) {
  opt.x = x;
  return clade_fft_(g, &opt);
}
inline clade_val ifft(clade_graph *g, clade_val x, clade_fft_opt opt = {}) {
  opt.x = x;
  return clade_ifft_(g, &opt);
}
inline clade_val rfft(clade_graph *g, clade_val x, clade_fft_opt opt = {}) {
  opt.x = x;
  return clade_rfft_(g, &opt);
}
inline clade_val irfft(clade_graph *g, clade_val x, clade_fft_opt opt = {}) {
  opt.x = x;
  return clade_irfft_(g, &opt);
}
inline clade_val conv1d(clade_graph *g, clade_val x, clade_val w, clade_conv1d_opt opt = {}) {
  opt.w = w;
  return clade_conv1d_(g, x, &opt);
}
inline clade_val conv1d_transpose(clade_graph *g, clade_val x, clade_val w, clade_conv1d_opt opt = {}) {
  opt.w = w;
  return clade_conv1d_transpose_(g, x, &opt);
}
inline clade_val conv2d(clade_graph *g, clade_val x, clade_val w, clade_conv2d_opt opt = {}) {
  opt.w = w;
  return clade_conv2d_(g, x, &opt);
}
inline clade_val conv2d_transpose(clade_graph *g, clade_val x, clade_val w, clade_conv2d_transpose_opt opt = {}) {
  opt.w = w;
  return clade_conv2d_transpose_(g, x, &opt);
}
inline clade_val conv3d(clade_graph *g, clade_val x, clade_val w, clade_conv3d_opt opt = {}) {
  opt.w = w;
  return clade_conv3d_(g, x, &opt);
}
inline clade_val conv3d_transpose(clade_graph *g, clade_val x, clade_val w, clade_conv3d_transpose_opt opt = {}) {
  opt.w = w;
  return clade_conv3d_transpose_(g, x, &opt);
}
inline clade_val max_pool2d(clade_graph *g, clade_val x, clade_pool2d_opt opt) {
  opt.x = x;
  return clade_max_pool2d_(g, &opt);
}
inline clade_val avg_pool2d(clade_graph *g, clade_val x, clade_pool2d_opt opt) {
  opt.x = x;
  return clade_avg_pool2d_(g, &opt);
}
inline clade_val cross_entropy(clade_graph *g, clade_val logits, clade_val labels, clade_cross_entropy_opt opt = {}) {
  opt.labels = labels;
  return clade_cross_entropy_(g, logits, &opt);
}

// ---- layers ----
// Builders of layers of <clade/ops.h> and <clade/nn.h>. They do not throw.
inline clade_val nn_linear(clade_graph *g, const char *name, clade_val x, clade_linear_opt opt) {
  opt.x = x;
  return clade_nn_linear_(g, name, &opt);
}
inline clade_val nn_conv1d(clade_graph *g, const char *name, clade_val x, clade_nn_conv1d_opt opt) {
  opt.x = x;
  return clade_nn_conv1d_(g, name, &opt);
}
inline clade_val nn_conv1d_transpose(clade_graph *g, const char *name, clade_val x, clade_nn_conv1d_opt opt) {
  opt.x = x;
  return clade_nn_conv1d_transpose_(g, name, &opt);
}
inline clade_val nn_conv2d(clade_graph *g, const char *name, clade_val x, clade_nn_conv2d_opt opt) {
  opt.x = x;
  return clade_nn_conv2d_(g, name, &opt);
}
inline clade_val nn_conv2d_transpose(clade_graph *g, const char *name, clade_val x, clade_nn_conv2d_transpose_opt opt) {
  opt.x = x;
  return clade_nn_conv2d_transpose_(g, name, &opt);
}
inline clade_val nn_conv3d(clade_graph *g, const char *name, clade_val x, clade_nn_conv3d_opt opt) {
  opt.x = x;
  return clade_nn_conv3d_(g, name, &opt);
}
inline clade_val nn_conv3d_transpose(clade_graph *g, const char *name, clade_val x, clade_nn_conv3d_transpose_opt opt) {
  opt.x = x;
  return clade_nn_conv3d_transpose_(g, name, &opt);
}
inline clade_val nn_batch_norm(clade_graph *g, const char *name, clade_val x, clade_batch_norm_opt opt = {}) {
  opt.x = x;
  return clade_nn_batch_norm_(g, name, &opt);
}
inline clade_val nn_layer_norm(clade_graph *g, const char *name, clade_val x, clade_layer_norm_opt opt = {}) {
  opt.x = x;
  return clade_nn_layer_norm_(g, name, &opt);
}
inline clade_val nn_rms_norm(clade_graph *g, const char *name, clade_val x, clade_layer_norm_opt opt = {}) {
  opt.x = x;
  return clade_nn_rms_norm_(g, name, &opt);
}
inline clade_val nn_group_norm(clade_graph *g, const char *name, clade_val x, clade_group_norm_opt opt) {
  opt.x = x;
  return clade_nn_group_norm_(g, name, &opt);
}
inline clade_val nn_instance_norm(clade_graph *g, const char *name, clade_val x, clade_group_norm_opt opt = {}) {
  opt.x = x;
  return clade_nn_instance_norm_(g, name, &opt);
}
inline clade_val nn_dropout(clade_graph *g, const char *name, clade_val x, clade_dropout_opt opt) {
  opt.x = x;
  return clade_nn_dropout_(g, name, &opt);
}
inline clade_val nn_embedding(clade_graph *g, const char *name, clade_val ids, clade_embedding_opt opt) {
  opt.ids = ids;
  return clade_nn_embedding_(g, name, &opt);
}

} // namespace clade

#endif
