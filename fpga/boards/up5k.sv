// iCE40 UP5K: 2 x 4 elements, on its eight hard multipliers.
module up5k (
    input  logic clk,
    input  logic reset,
    input  logic sck,
    input  logic cs_n,
    input  logic mosi,
    output logic miso
);
  clade_serial #(
      .ROWS(2),
      .COLS(4),
      .LOG_DEPTH(8)
  ) serial (
      .*
  );
endmodule
