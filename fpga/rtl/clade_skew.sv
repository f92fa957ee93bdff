// Delays lane i by i cycles, so that operands of one beat meet on the diagonals of the grid.
module clade_skew #(
    parameter int LANES = 4,
    parameter int WIDTH = 8
) (
    input  logic                   clk,
    input  logic                   clear,
    input  logic [LANES*WIDTH-1:0] in,
    output logic [LANES*WIDTH-1:0] out
);
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    if (lane == 0) begin : g_direct
      logic clock_unused;  // if there is no other lane
      assign clock_unused = clk ^ clear;
      assign out[0+:WIDTH] = in[0+:WIDTH];
    end else begin : g_delayed
      logic [lane*WIDTH-1:0] stages;  // the oldest on top
      always_ff @(posedge clk) begin
        if (clear) stages <= '0;
        else stages <= (lane * WIDTH)'({stages, in[lane*WIDTH+:WIDTH]});
      end
      assign out[lane*WIDTH+:WIDTH] = stages[(lane-1)*WIDTH+:WIDTH];
    end
  end
endmodule
