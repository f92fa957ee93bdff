# Two rows of three probabilities, and a good end.
set -e
printed=$("$1")
echo "$printed"
test "$(echo "$printed" | grep -Ec '^[01][.][0-9]{4} [01][.][0-9]{4} [01][.][0-9]{4}$')" = 2
