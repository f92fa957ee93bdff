// Three nested counters: beats of a tile, tiles of a panel, panels. Each runs from 0 up to its top.
module clade_walk (
    input logic clk,
    input logic start,
    input logic step,

    input logic [15:0] top_k,
    input logic [15:0] top_col,
    input logic [15:0] top_row,

    output logic last_k,    // this is the last beat of its tile,
    output logic last_col,  // its tile the last one of its panel,
    output logic last_row,  // its panel the last one
    output logic over       // the last beat of all was stepped over
);
  logic [15:0] k, col, row;

  assign last_k   = k == top_k;
  assign last_col = col == top_col;
  assign last_row = row == top_row;

  always_ff @(posedge clk) begin
    if (start) begin
      k    <= '0;
      col  <= '0;
      row  <= '0;
      over <= '0;
    end else if (step) begin
      k <= last_k ? '0 : k + 1'b1;
      if (last_k) col <= last_col ? '0 : col + 1'b1;
      if (last_k && last_col) row <= row + 1'b1;
      if (last_k && last_col && last_row) over <= '1;
    end
  end
endmodule
