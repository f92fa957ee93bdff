// iCE40 HX8K, which has no hard multipliers: 4 x 4 elements in logic.
module hx8k (
    input  logic clk,
    input  logic reset,
    input  logic sck,
    input  logic cs_n,
    input  logic mosi,
    output logic miso
);
  clade_serial #(
      .ROWS(4),
      .COLS(4),
      .LOG_DEPTH(8)
  ) serial (
      .*
  );
endmodule
