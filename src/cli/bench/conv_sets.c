/* The built-in sets of `clade bench conv`: each distinct layer of three networks, for images of 224 x 224. */
#include "cli/bench/conv.h"

/* d, h: 0 means that the axis is absent. */
const bench_key bench_conv_keys[] = {{"c", 1, 1 << 16, 0},
                                     {"d", 0, 1 << 16, 0},
                                     {"h", 0, 1 << 16, 0},
                                     {"w", 1, 1 << 24, 0},
                                     {"out", 1, 1 << 16, 0},
                                     {"kernel", 1, 1 << 10, 0},
                                     {"stride", 1, 1 << 10, 1},
                                     {"pad", 0, 1 << 14, 0},
                                     {"dilation", 1, 1 << 10, 1},
                                     {"groups", 1, 1 << 16, 1},
                                     {0}};

const bench_set bench_conv_sets[] = {{"resnet50", "stem c=3 h=224 w=224 out=64 kernel=7 stride=2 pad=3\n"
                                                  "2.reduce1 c=64 h=56 w=56 out=64 kernel=1\n"
                                                  "2.3x3 c=64 h=56 w=56 out=64 kernel=3 pad=1\n"
                                                  "2.expand c=64 h=56 w=56 out=256 kernel=1\n"
                                                  "2.reduce c=256 h=56 w=56 out=64 kernel=1\n"
                                                  "3.reduce1 c=256 h=56 w=56 out=128 kernel=1\n"
                                                  "3.3x3s2 c=128 h=56 w=56 out=128 kernel=3 stride=2 pad=1\n"
                                                  "3.expand c=128 h=28 w=28 out=512 kernel=1\n"
                                                  "3.past c=256 h=56 w=56 out=512 kernel=1 stride=2\n"
                                                  "3.reduce c=512 h=28 w=28 out=128 kernel=1\n"
                                                  "3.3x3 c=128 h=28 w=28 out=128 kernel=3 pad=1\n"
                                                  "4.reduce1 c=512 h=28 w=28 out=256 kernel=1\n"
                                                  "4.3x3s2 c=256 h=28 w=28 out=256 kernel=3 stride=2 pad=1\n"
                                                  "4.expand c=256 h=14 w=14 out=1024 kernel=1\n"
                                                  "4.past c=512 h=28 w=28 out=1024 kernel=1 stride=2\n"
                                                  "4.reduce c=1024 h=14 w=14 out=256 kernel=1\n"
                                                  "4.3x3 c=256 h=14 w=14 out=256 kernel=3 pad=1\n"
                                                  "5.reduce1 c=1024 h=14 w=14 out=512 kernel=1\n"
                                                  "5.3x3s2 c=512 h=14 w=14 out=512 kernel=3 stride=2 pad=1\n"
                                                  "5.expand c=512 h=7 w=7 out=2048 kernel=1\n"
                                                  "5.past c=1024 h=14 w=14 out=2048 kernel=1 stride=2\n"
                                                  "5.reduce c=2048 h=7 w=7 out=512 kernel=1\n"
                                                  "5.3x3 c=512 h=7 w=7 out=512 kernel=3 pad=1\n"},
                                     {"vgg16", "1.1 c=3 h=224 w=224 out=64 kernel=3 pad=1\n"
                                               "1.2 c=64 h=224 w=224 out=64 kernel=3 pad=1\n"
                                               "2.1 c=64 h=112 w=112 out=128 kernel=3 pad=1\n"
                                               "2.2 c=128 h=112 w=112 out=128 kernel=3 pad=1\n"
                                               "3.1 c=128 h=56 w=56 out=256 kernel=3 pad=1\n"
                                               "3.2 c=256 h=56 w=56 out=256 kernel=3 pad=1\n"
                                               "4.1 c=256 h=28 w=28 out=512 kernel=3 pad=1\n"
                                               "4.2 c=512 h=28 w=28 out=512 kernel=3 pad=1\n"
                                               "5.1 c=512 h=14 w=14 out=512 kernel=3 pad=1\n"},
                                     {"mobilenetv2",
                                      "stem c=3 h=224 w=224 out=32 kernel=3 stride=2 pad=1\n"
                                      "1.dw c=32 h=112 w=112 out=32 kernel=3 pad=1 groups=32\n"
                                      "1.project c=32 h=112 w=112 out=16 kernel=1\n"
                                      "2.expand1 c=16 h=112 w=112 out=96 kernel=1\n"
                                      "2.dws2 c=96 h=112 w=112 out=96 kernel=3 stride=2 pad=1 groups=96\n"
                                      "2.project1 c=96 h=56 w=56 out=24 kernel=1\n"
                                      "2.expand c=24 h=56 w=56 out=144 kernel=1\n"
                                      "2.dw c=144 h=56 w=56 out=144 kernel=3 pad=1 groups=144\n"
                                      "2.project c=144 h=56 w=56 out=24 kernel=1\n"
                                      "3.dws2 c=144 h=56 w=56 out=144 kernel=3 stride=2 pad=1 groups=144\n"
                                      "3.project1 c=144 h=28 w=28 out=32 kernel=1\n"
                                      "3.expand c=32 h=28 w=28 out=192 kernel=1\n"
                                      "3.dw c=192 h=28 w=28 out=192 kernel=3 pad=1 groups=192\n"
                                      "3.project c=192 h=28 w=28 out=32 kernel=1\n"
                                      "4.dws2 c=192 h=28 w=28 out=192 kernel=3 stride=2 pad=1 groups=192\n"
                                      "4.project1 c=192 h=14 w=14 out=64 kernel=1\n"
                                      "4.expand c=64 h=14 w=14 out=384 kernel=1\n"
                                      "4.dw c=384 h=14 w=14 out=384 kernel=3 pad=1 groups=384\n"
                                      "4.project c=384 h=14 w=14 out=64 kernel=1\n"
                                      "5.project1 c=384 h=14 w=14 out=96 kernel=1\n"
                                      "5.expand c=96 h=14 w=14 out=576 kernel=1\n"
                                      "5.dw c=576 h=14 w=14 out=576 kernel=3 pad=1 groups=576\n"
                                      "5.project c=576 h=14 w=14 out=96 kernel=1\n"
                                      "6.dws2 c=576 h=14 w=14 out=576 kernel=3 stride=2 pad=1 groups=576\n"
                                      "6.project1 c=576 h=7 w=7 out=160 kernel=1\n"
                                      "6.expand c=160 h=7 w=7 out=960 kernel=1\n"
                                      "6.dw c=960 h=7 w=7 out=960 kernel=3 pad=1 groups=960\n"
                                      "6.project c=960 h=7 w=7 out=160 kernel=1\n"
                                      "7.project c=960 h=7 w=7 out=320 kernel=1\n"
                                      "last c=320 h=7 w=7 out=1280 kernel=1\n"},
                                     {0}};
