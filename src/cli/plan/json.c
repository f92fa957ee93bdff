/* JSON of clade plan (docs/json.md), with enough of each layout to simulate its schedule elsewhere. */
#include "cli/plan/plan.h"

static json_t *pass_json(const plan_pass *pass) {
  return json_pack("{s:f, s:f}", "compute_seconds", pass->compute, "moves_seconds", pass->moves);
}

static json_t *pieces_json(const plan_work *work) {
  json_t *all = json_array();
  for (int i = 0; i < work->n_pieces; i++) {
    const plan_piece *p = &work->pieces[i];
    json_array_append_new(all, json_pack("{s:o, s:o, s:I, s:I, s:I}", "forward", pass_json(&p->forward), "backward",
                                         pass_json(&p->backward), "parameter_bytes", (json_int_t)p->parameters,
                                         "kept_bytes", (json_int_t)p->kept, "passing_bytes", (json_int_t)p->passing));
  }
  return all;
}

static json_t *messages_json(const plan_work *work) {
  static const char *const names[] = {[SCHEDULE_FORWARD] = "forward",
                                      [SCHEDULE_BACKWARD] = "backward",
                                      [SCHEDULE_BEGIN] = "begin",
                                      [SCHEDULE_END] = "end"};
  json_t *all = json_array();
  for (int i = 0; i < work->n_messages; i++) {
    const schedule_message *m = &work->messages[i];
    json_array_append_new(all, json_pack("{s:i, s:i, s:s, s:I}", "from", m->from, "to", m->to, "when", names[m->when],
                                         "bytes", (json_int_t)m->bytes));
  }
  return all;
}

static json_t *moves_json(const plan_work *work) {
  static const char *const kinds[] = {[PLAN_ALL_REDUCE] = "all_reduce",
                                      [PLAN_REDUCE_SCATTER] = "reduce_scatter",
                                      [PLAN_ALL_GATHER] = "all_gather",
                                      [PLAN_ALL_TO_ALL] = "all_to_all"};
  json_t *all = json_array();
  for (int i = 0; i < work->n_moves; i++) {
    const plan_move *m = &work->moves[i];
    json_array_append_new(all, json_pack("{s:i, s:b, s:s, s:I, s:i}", "piece", m->piece, "backward", m->backward,
                                         "kind", kinds[m->kind], "bytes", (json_int_t)m->bytes, "times", m->n));
  }
  return all;
}

static json_t *layout_json(const plan_layout *l) {
  const clade__grid *g = &l->grid;
  json_t *layout = json_pack("{s:i, s:i, s:i, s:i, s:i, s:s, s:I, s:b}", "data", g->data, "tensor", g->tensor,
                             "pipeline", g->pipeline, "micro_batches", g->micro_batches, "interleave", g->interleave,
                             "shard", clade_shard_name(l->shard), "rows", (json_int_t)l->rows, "fits", l->fits);
  json_t *times = json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", l->seconds, "idle", l->idle, "moves_seconds",
                            l->moves, "exposed_seconds", l->exposed, "update_seconds", l->update);
  json_t *memory = json_pack("{s:I, s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)l->memory, "variable_bytes",
                             (json_int_t)l->variables, "optimizer_bytes", (json_int_t)l->moments, "gradient_bytes",
                             (json_int_t)l->gradients, "value_bytes", (json_int_t)l->values);
  json_t *work = json_pack("{s:o, s:o, s:o}", "pieces", pieces_json(l->work), "messages", messages_json(l->work),
                           "moves", moves_json(l->work));
  const bool made =
      !json_object_update(layout, times) && !json_object_update(layout, memory) && !json_object_update(layout, work);
  json_decref(times);
  json_decref(memory);
  json_decref(work);
  if (made) return layout;
  json_decref(layout);
  return NULL;
}

static json_t *link_json(const scale_link *l) {
  return json_pack("{s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "latency_seconds", l->latency, "bandwidth_gbs",
                   l->bandwidth * 1e-9, "node_ranks", CLADE_MAX(1, l->near_ranks), "node_latency_seconds",
                   l->near_latency, "node_bandwidth_gbs", l->near_bandwidth * 1e-9, "add_gbs", l->add * 1e-9,
                   "poll_seconds", l->look);
}

json_t *plan_json(const plan_job *job, const plan_found *found, int rows) {
  json_t *layouts = json_array();
  for (int i = 0; i < rows; i++) json_array_append_new(layouts, layout_json(&found->layouts[i]));
  json_t *device =
      json_pack("{s:o, s:f, s:f, s:f}", "name", cli_json_text(job->device.name), "flops", job->device.flops,
                "bandwidth_gbs", job->device.bandwidth * 1e-9, "scale", job->device.scale);
  return json_pack("{s:s, s:i, s:I, s:I, s:o, s:o, s:f, s:i, s:i, s:o}", "model", job->model.name, "ranks", job->ranks,
                   "batch", (json_int_t)job->batch, "memory_bytes", (json_int_t)job->memory, "device", device, "link",
                   link_json(&job->links.link), "alone_seconds", found->alone, "looked_at", found->n, "fitting",
                   found->n_fit, "layouts", layouts);
}
