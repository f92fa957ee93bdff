# Expects two rows of three probabilities, and success.
set -e
printed=$("$1")
echo "$printed"
test "$(echo "$printed" | grep -Ec '^[01][.][0-9]{4} [01][.][0-9]{4} [01][.][0-9]{4}$')" = 2
