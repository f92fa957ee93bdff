// ROWS x COLS processing elements and the skew in front of them. Each cycle takes one beat: a column of A, a row of B.
//
// An idle beat has zero B, which changes no sum, so nothing in the grid ever stalls.
module clade_grid #(
    parameter int ROWS = 4,
    parameter int COLS = 4
) (
    input logic clk,
    input logic clear,

    input  logic [ 8*ROWS-1:0] a,
    input  logic [ 8*COLS-1:0] b,
    input  logic               last,  // this beat ends its tile
    output logic               ended, // from the next cycle on, the result registers hold all sums of that tile

    input  logic               shift,  // shifts to the next row of results
    output logic [32*COLS-1:0] row     // the upper row of the result registers
);
  // a_at: the operand and its flag that enter column c of row r; likewise b_at, result_at. One more of each leaves.
  logic [9*ROWS-1:0] a_lanes, a_skewed;
  logic [8*COLS-1:0] b_skewed;
  logic [9*ROWS*(COLS+1)-1:0] a_at;
  logic [8*COLS*(ROWS+1)-1:0] b_at;
  logic [32*COLS*(ROWS+1)-1:0] result_at;

  clade_skew #(
      .LANES(ROWS),
      .WIDTH(9)
  ) skew_a (
      .clk,
      .clear,
      .in (a_lanes),
      .out(a_skewed)
  );
  clade_skew #(
      .LANES(COLS),
      .WIDTH(8)
  ) skew_b (
      .clk,
      .clear,
      .in (b),
      .out(b_skewed)
  );

  logic leaves_unused;  // operands that have passed all elements
  assign leaves_unused = ^b_at[8*COLS*ROWS+:8*COLS];

  assign b_at[8*COLS-1:0] = b_skewed;
  assign result_at[32*COLS*ROWS+:32*COLS] = '0;
  assign row = result_at[32*COLS-1:0];
  assign ended = a_at[9*(ROWS*(COLS+1)-1)+8];

  for (genvar r = 0; r < ROWS; r++) begin : g_row
    assign a_lanes[9*r+:9] = {last, a[8*r+:8]};
    assign a_at[9*r*(COLS+1)+:9] = a_skewed[9*r+:9];
    for (genvar c = 0; c < COLS; c++) begin : g_col
      localparam int A = 9 * (r * (COLS + 1) + c);
      localparam int B = 8 * (r * COLS + c);
      localparam int S = 32 * (r * COLS + c);
      clade_pe pe (
          .clk,
          .clear,
          .a_in      (a_at[A+:8]),
          .last_in   (a_at[A+8]),
          .a_out     (a_at[A+9+:8]),
          .last_out  (a_at[A+9+8]),
          .b_in      (b_at[B+:8]),
          .b_out     (b_at[B+8*COLS+:8]),
          .shift,
          .result_in (result_at[S+32*COLS+:32]),
          .result_out(result_at[S+:32])
      );
    end
  end
endmodule
