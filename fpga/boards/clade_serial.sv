// The array behind four wires: SPI, mode 0, lowest bit first, at most an eighth of the clock's frequency.
//
// A transaction begins with cs_n low and eight bits that announce the payload:
//   1  a command: k, cols, rows, 16 bits each        2  a beat of a        3  a beat of b
//   4  from the array: a beat of results, released when cs_n rises        0  nothing, to read the status
// Meanwhile eight status bits are returned: bit 0, the last payload is still pending, and no other may be sent;
// bit 1, a beat of results is available; bit 2, a command is accepted; then 10101, which reveals a broken wire.
module clade_serial #(
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int LOG_DEPTH = 8
) (
    input  logic clk,
    input  logic reset,
    input  logic sck,
    input  logic cs_n,
    input  logic mosi,
    output logic miso
);
  localparam int BEAT = 8 * (ROWS > COLS ? ROWS : COLS);
  localparam int WIDTH = BEAT > 48 ? BEAT : 48;
  localparam int OUT_BITS = $clog2(32 * COLS);

  // Synchronizes pins of another clock domain: two registers each, and a third one for edges.
  logic [1:0] resets, bits;
  logic [2:0] clocks, selects;
  always_ff @(posedge clk) begin
    resets  <= {resets[0], reset};
    bits    <= {bits[0], mosi};
    clocks  <= {clocks[1:0], sck};
    selects <= {selects[1:0], cs_n};
  end

  logic [7:0] what, status;
  logic [WIDTH-1:0] data;  // the latest bits are on top
  logic [OUT_BITS-1:0] count;  // of bits after the first eight
  logic [2:0] head;  // of the first eight
  logic payload;  // the first eight are complete

  logic command_valid, command_ready, a_valid, a_ready, b_valid, b_ready, out_valid, out_ready, last_unused;
  logic [32*COLS-1:0] out_data;

  assign status = {5'b10101, command_ready, out_valid, command_valid || a_valid || b_valid};

  always_ff @(posedge clk) begin
    miso <= payload ? out_data[count] : status[head];
    if (selects[1]) begin
      head   <= '0;
      payload <= '0;
      count  <= '0;
    end else if (clocks[2:1] == 2'b01) begin
      if (payload) begin
        count <= count + 1'b1;
        data  <= {bits[1], data[WIDTH-1:1]};
      end else begin
        head   <= head + 1'b1;
        payload <= head == 3'd7;
        what   <= {bits[1], what[7:1]};
      end
    end
    if (resets[1]) begin
      command_valid <= '0;
      a_valid       <= '0;
      b_valid       <= '0;
      out_ready     <= '0;
    end else begin
      if (command_ready) command_valid <= '0;
      if (a_ready) a_valid <= '0;
      if (b_ready) b_valid <= '0;
      out_ready <= '0;
      if (payload && selects[2:1] == 2'b01) begin
        command_valid <= what == 8'd1;
        a_valid       <= what == 8'd2;
        b_valid       <= what == 8'd3;
        out_ready     <= what == 8'd4;
      end
    end
  end

  clade_array #(
      .ROWS(ROWS),
      .COLS(COLS),
      .LOG_DEPTH(LOG_DEPTH)
  ) array (
      .clk,
      .reset(resets[1]),
      .command_valid,
      .command_ready,
      .command_k(data[WIDTH-48+:16]),
      .command_cols(data[WIDTH-32+:16]),
      .command_rows(data[WIDTH-16+:16]),
      .a_valid,
      .a_ready,
      .a_data(data[WIDTH-1-:8*ROWS]),
      .b_valid,
      .b_ready,
      .b_data(data[WIDTH-1-:8*COLS]),
      .out_valid,
      .out_ready,
      .out_last(last_unused),
      .out_data
  );
endmodule
