// Three nested counters: beats of a tile, tiles of a panel, panels.
module clade_walk (
    input logic clk,
    input logic start,  // loads the counts
    input logic step,

    input logic [15:0] count_k,
    input logic [15:0] count_col,
    input logic [15:0] count_row,

    output logic last_k,    // the last beat of its tile,
    output logic last_col,  // in the last tile of its panel,
    output logic last_row,  // in the last panel
    output logic over       // after the last beat of all
);
  clade_counter k (
      .clk,
      .start,
      .count(count_k),
      .step,
      .last(last_k)
  );
  clade_counter col (
      .clk,
      .start,
      .count(count_col),
      .step(step && last_k),
      .last(last_col)
  );
  clade_counter row (
      .clk,
      .start,
      .count(count_row),
      .step(step && last_k && last_col),
      .last(last_row)
  );

  always_ff @(posedge clk) begin
    if (start) over <= '0;
    else if (step && last_k && last_col && last_row) over <= '1;
  end
endmodule
