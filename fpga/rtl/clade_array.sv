// The whole array: a command and two streams of int8 come in, a stream of int32 goes out.
//
// A command is the product of `rows` panels of A (ROWS rows of k) by `cols` panels of B (COLS columns of k). It takes
//   a: for each panel of A k beats, beat i the column i of the panel, its row r in byte r. Where k does not fit into
//      the queue (k >= 2^LOG_DEPTH), a panel comes once for each panel of B
//   b: for each panel of A, for each panel of B k beats, beat i the row i of the panel, its column c in byte c
// and gives, in that order of tiles, ROWS beats for each tile: its rows from above, column c in word c.
// A beat passes where valid and ready are both high at the clock's edge. ready never hangs on valid of its own stream.
module clade_array #(
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input logic reset,  // for one cycle or more; whatever was on its way is forgotten

    input  logic        command_valid,
    output logic        command_ready,
    input  logic [15:0] command_k,
    input  logic [15:0] command_cols,
    input  logic [15:0] command_rows,

    input  logic              a_valid,
    output logic              a_ready,
    input  logic [8*ROWS-1:0] a_data,

    input  logic              b_valid,
    output logic              b_ready,
    input  logic [8*COLS-1:0] b_data,

    output logic               out_valid,
    input  logic               out_ready,
    output logic               out_last,  // the last beat of the command
    output logic [32*COLS-1:0] out_data
);
  logic clear, was_reset;
  logic panel_full, panel_available, panel_read, panel_again, panel_free;
  logic feed, feed_last, last, ended;
  logic [8*ROWS-1:0] a;
  logic [8*COLS-1:0] b;

  assign clear = reset || was_reset;

  // The beat of B waits a cycle for the panel's memory.
  always_ff @(posedge clk) begin
    was_reset <= reset;
    b         <= feed && !clear ? b_data : '0;
    last      <= feed_last && !clear;
  end

  clade_control #(
      .ROWS(ROWS),
      .LOG_DEPTH(LOG_DEPTH)
  ) control (
      .*
  );
  clade_panel #(
      .WIDTH(8 * ROWS),
      .LOG_DEPTH(LOG_DEPTH)
  ) panel (
      .clk,
      .clear,
      .write(a_valid && a_ready),
      .write_data(a_data),
      .full(panel_full),
      .available(panel_available),
      .read(panel_read),
      .again(panel_again),
      .free(panel_free),
      .read_data(a)
  );
  clade_grid #(
      .ROWS(ROWS),
      .COLS(COLS)
  ) grid (
      .clk,
      .clear,
      .a,
      .b,
      .last,
      .ended,
      .shift(out_valid && out_ready),
      .row(out_data)
  );
endmodule
