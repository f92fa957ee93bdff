// ECP5-85: 8 x 8 elements, on 64 of its hard multipliers.
module ecp5 (
    input  logic clk,
    input  logic reset,
    input  logic sck,
    input  logic cs_n,
    input  logic mosi,
    output logic miso
);
  clade_serial #(
      .ROWS(8),
      .COLS(8),
      .LOG_DEPTH(8)
  ) serial (
      .*
  );
endmodule
