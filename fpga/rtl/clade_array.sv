// The complete array: a command and two streams of int8 as inputs, a stream of int32 as output.
//
// A command is the product of `rows` panels of A (ROWS rows of k) by `cols` panels of B (COLS columns of k). It reads
//   a: for each panel of A k beats, where beat i is column i of the panel, with its row r in byte r. If k does not fit
//      into the queue (k >= 2^LOG_DEPTH), a panel is sent once for each panel of B
//   b: for each panel of A, for each panel of B k beats, where beat i is row i of the panel, with its column c in byte c
// and returns, in the same order of tiles, ROWS beats per tile: its rows from the top, with column c in word c.
// A beat is transferred if valid and ready are high at the clock edge. ready never depends on valid of its own stream.
module clade_array #(
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input logic reset,  // for one cycle or more; discards everything in progress

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

  // The beat of B is delayed by a cycle, as the panel's memory is.
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
