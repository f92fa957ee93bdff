// A processing element: adds the passing products to a stationary sum, and passes both operands on.
//
// Two stages, so that multiplier and adder are in different clock periods: the product is registered, and added a cycle
// later, together with `last_out`, which marks the last product of a sum.
module clade_pe (
    input logic clk,
    input logic clear,  // resets the sum; held for two cycles, since the product has no reset (hard multipliers have none)

    input  logic [7:0] a_in,  // from the left, to the right
    input  logic       last_in,
    output logic [7:0] a_out,
    output logic       last_out,

    input  logic [7:0] b_in,  // from above, downwards
    output logic [7:0] b_out,

    input  logic        shift,  // finished sums move up by one row
    input  logic [31:0] result_in,
    output logic [31:0] result_out
);
  logic signed [15:0] product;
  logic [31:0] sum, total;

  assign total = sum + {{16{product[15]}}, product};

  always_ff @(posedge clk) begin
    a_out   <= a_in;
    product <= $signed(a_in) * $signed(b_in);
    if (clear) begin
      b_out    <= '0;
      last_out <= '0;
      sum      <= '0;
    end else begin
      b_out    <= b_in;
      last_out <= last_in;
      sum      <= last_out ? '0 : total;
    end
    if (last_out) result_out <= total;
    else if (shift) result_out <= result_in;
  end
endmodule
