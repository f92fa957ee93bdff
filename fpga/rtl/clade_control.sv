// Sequencing: when beats are accepted, when the grid is fed, and when a tile's results are sent.
//
// The only safety condition: the result registers hold one tile. The last beat of a tile, which overwrites them, waits
// until the previous tile has been sent. All other beats proceed.
module clade_control #(
    parameter int ROWS = 4,
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input logic clear,

    input  logic        command_valid,
    output logic        command_ready,
    input  logic [15:0] command_k,
    input  logic [15:0] command_cols,  // tiles side by side
    input  logic [15:0] command_rows,  // panels one below the other

    input  logic a_valid,
    output logic a_ready,
    input  logic panel_full,
    input  logic panel_available,
    output logic panel_read,
    output logic panel_again,
    output logic panel_free,

    input  logic b_valid,
    output logic b_ready,

    output logic feed,       // a beat of b enters the grid
    output logic feed_last,  // and it is the last one of a tile
    input  logic ended,

    output logic out_valid,
    input  logic out_ready,
    output logic out_last
);
  localparam int ROW_BITS = $clog2(ROWS + 1);

  logic busy, empty, keep;  // empty: k is 0; keep: a panel fits into the queue
  logic fits;
  logic start, step, last_k, last_col, last_row, over, may, loaded;
  logic [2:0] load_unused;
  logic closed, final_tile;  // closed: a tile has its last beat and is not sent yet
  logic [ROW_BITS-1:0] row;
  logic sent;

  assign command_ready = !busy && !clear;
  assign start = command_valid && command_ready;
  assign fits = command_k >> LOG_DEPTH == 0;

  // Input: each panel once, or once for each of its tiles.
  clade_walk load (
      .clk,
      .start,
      .step(a_valid && a_ready),
      .count_k(command_k),
      .count_col(fits ? 16'd1 : command_cols),
      .count_row(command_rows),
      .last_k(load_unused[0]),
      .last_col(load_unused[1]),
      .last_row(load_unused[2]),
      .over(loaded)
  );
  assign a_ready = busy && !empty && !loaded && !panel_full;

  // Grid: without products (k = 0) a tile still is one beat, an empty one.
  clade_walk walk (
      .clk,
      .start,
      .step,
      .count_k(command_k),
      .count_col(command_cols),
      .count_row(command_rows),
      .last_k,
      .last_col,
      .last_row,
      .over
  );
  assign may = busy && !over && !(last_k && closed);
  assign b_ready = may && !empty && panel_available;
  assign feed = b_ready && b_valid;
  assign step = empty ? may : feed;
  assign feed_last = step && last_k;
  assign panel_read = feed;
  assign panel_again = keep && last_k && !last_col;
  assign panel_free = !panel_again && (!keep || last_k);

  // Output: the rows of a tile, once its last sum is complete.
  assign sent = out_valid && out_ready && row == ROW_BITS'(ROWS - 1);
  assign out_last = final_tile && row == ROW_BITS'(ROWS - 1);

  always_ff @(posedge clk) begin
    if (clear) begin
      busy      <= '0;
      closed    <= '0;
      out_valid <= '0;
    end else begin
      if (start) busy <= command_rows != 0 && command_cols != 0;
      else if (sent && final_tile) busy <= '0;
      if (feed_last) closed <= '1;
      else if (sent) closed <= '0;
      if (ended) out_valid <= '1;
      else if (sent) out_valid <= '0;
    end
    if (start) begin
      empty <= command_k == 0;
      keep  <= fits;
    end
    if (ended) row <= '0;
    else if (out_valid && out_ready) row <= row + 1'b1;
    if (feed_last) final_tile <= last_col && last_row;
  end
endmodule
