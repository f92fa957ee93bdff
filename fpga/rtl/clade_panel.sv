// A queue whose reader may go back: it holds a panel of A while tiles are computed from it, and accepts the next one
// meanwhile. A panel longer than the queue is not kept; its sender repeats it for each tile.
module clade_panel #(
    parameter int WIDTH = 32,
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input logic clear,

    input  logic             write,
    input  logic [WIDTH-1:0] write_data,
    output logic             full,

    output logic             available,
    input  logic             read,       // to the next beat
    input  logic             again,      // with read: to the first beat that was not released
    input  logic             free,       // with read: releases the beats up to this one
    output logic [WIDTH-1:0] read_data   // a cycle later
);
  logic [WIDTH-1:0] beats[1 << LOG_DEPTH];
  logic [LOG_DEPTH:0] head, at, tail, following;  // one bit more than an address, to tell full from empty

  assign full = (head ^ tail) == {1'b1, {LOG_DEPTH{1'b0}}};
  assign following = at + 1'b1;

  always_ff @(posedge clk) begin
    if (clear) begin
      head      <= '0;
      at        <= '0;
      tail      <= '0;
      available <= '0;
    end else begin
      if (write) head <= head + 1'b1;
      if (read) at <= again ? tail : following;
      if (read && free) tail <= following;
      available <= write || (read ? again || head != following : available);
    end
  end

  always_ff @(posedge clk) begin
    if (write) beats[head[LOG_DEPTH-1:0]] <= write_data;
    read_data <= beats[at[LOG_DEPTH-1:0]];
  end
endmodule
