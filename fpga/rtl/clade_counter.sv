// Counts steps from 1 to `count`, repeatedly. The flag of the last step comes from a register, without a comparison in
// its cycle; a count of 0 counts as 1.
module clade_counter (
    input  logic        clk,
    input  logic        start,  // loads the count
    input  logic [15:0] count,
    input  logic        step,
    output logic        last
);
  logic [15:0] limit, following;  // following: the number of the next step
  logic single;

  always_ff @(posedge clk) begin
    if (start) begin
      limit     <= count;
      single    <= count < 2;
      last      <= count < 2;
      following <= 2;
    end else if (step) begin
      last      <= last ? single : following == limit;
      following <= last ? 16'd2 : following + 1'b1;
    end
  end
endmodule
