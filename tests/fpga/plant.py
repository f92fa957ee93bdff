"""Plants faults in a copy of the array; the array's test must detect all of them.

plant.py copy FROM TO: copies the sources and puts each fault beside the correct expression, as
    fault() == n ? wrong : right
so that one build contains all of them. plant.py run PROGRAM: it must pass without a fault and fail with each."""

import os
import re
import subprocess
import sys

FAULTS = [  # file, location (the correct expression is between « and »), wrong expression, description
    ("pe", "product <= «$signed(a_in) * $signed(b_in)»;", "$signed(a_in) * $signed({1'b0, b_in})", "unsigned b"),
    ("pe", "sum + «{{16{product[15]}}, product}»;", "{16'b0, product}", "unsigned products"),
    ("pe", "sum      <= «last_out ? '0 : total»;", "total", "a sum that goes on into the next tile"),
    ("pe", "if («clear») begin", "1'b0", "a sum that outlives a reset"),
    ("skew", "assign out[lane*WIDTH+:WIDTH] = «stages[(lane-1)*WIDTH+:WIDTH]»;", "in[lane*WIDTH+:WIDTH]", "no skew"),
    ("skew", "assign out[lane*WIDTH+:WIDTH] = «stages[(lane-1)*WIDTH+:WIDTH]»;",
     "stages[(lane/2)*WIDTH+:WIDTH]", "dropped registers of the skew"),
    ("panel", "at <= «again ? tail : following»;", "following", "a panel that is not kept"),
    ("panel", "assign full = (head ^ «tail»)", "at", "a queue that overwrites what it keeps"),
    ("panel", "available <= «write || (read ? again || head != following : available)»;", "1'b1", "beats read before they came"),
    ("control", "busy && !over && «!(last_k && closed)»;", "1'b1", "results overwritten before they left"),
    ("control", "!panel_again && «(!keep || last_k)»;", "1'b0", "a panel that is never released"),
    ("control", "assign sent = out_valid && «out_ready» &&", "1'b1", "a last row that does not wait to be taken"),
    ("control", "assign fits = «command_k >> LOG_DEPTH == 0»;", "1'b1", "a panel kept that does not fit"),
    ("control", "else if («sent») closed", "out_valid", "a tile let go after its first row"),
    ("control", "empty <= «command_k == 0»;", "1'b0", "beats awaited that never come"),
    ("counter", "last ? «single» :", "1'b0", "tiles of one beat that become long ones"),
    ("array", "b         <= «feed && !clear» ?", "!clear", "a beat that is added while it waits"),
    ("array", "assign clear = «reset || was_reset»;", "reset", "a reset of one cycle, where the product needs two"),
]
PACKAGE = 'package clade_plant;\n  import "DPI-C" function int fault();\nendpackage\n'



def copy(source, target):
    os.makedirs(target, exist_ok=True)
    texts = {"clade_plant.sv": PACKAGE}
    for name in os.listdir(source):
        with open(os.path.join(source, name), encoding="utf-8") as f:
            texts[name] = f.read()
    planted = {}  # location: the expression so far
    for number, (module, where, wrong, what) in enumerate(FAULTS, 1):
        before, right, after = re.split("[«»]", where)
        name = f"clade_{module}.sv"
        if texts[name].count(before + right + after) != 1 and (name, where) not in planted:
            sys.exit(f"plant.py: {name} does not hold once what '{what}' changes: {before}{right}{after}")
        old = planted.get((name, where), right)
        new = f"(clade_plant::fault() == {number} ? {wrong} : ({old}))"
        texts[name] = texts[name].replace(before + old + after, before + new + after)
        planted[name, where] = new
    for name, text in texts.items():
        with open(os.path.join(target, name), "w", encoding="utf-8") as f:
            f.write(text)


def run(program):
    missed = 0
    for number, what in enumerate(["no fault"] + [f[3] for f in FAULTS]):
        done = subprocess.run([program], env={**os.environ, "CLADE_FAULT": str(number)}, capture_output=True, text=True,
                              check=False, timeout=60)
        print(f"{what}: {(done.stderr or done.stdout).strip()}")
        if done.returncode != (1 if number else 0):
            missed += 1
            print(f"plant.py: ended with {done.returncode}, expected {1 if number else 0}", file=sys.stderr)
    return missed


if __name__ == "__main__":
    sys.exit(copy(*sys.argv[2:]) if sys.argv[1] == "copy" else run(sys.argv[2]))
