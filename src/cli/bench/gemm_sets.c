/* The built-in sets of `clade bench gemm`. */
#include "cli/bench/gemm.h"

/* A flag without a value is 1. frozen_a, frozen_b: the operand is a constant weight; other operands are rewritten
 * before each call. */
const bench_key bench_gemm_keys[] = {{"m", 1, 1 << 20, 0},     {"n", 1, 1 << 20, 0},  {"k", 1, 1 << 20, 0},
                                     {"batch", 1, 1 << 16, 1}, {"trans_a", 0, 1, 0},  {"trans_b", 0, 1, 0},
                                     {"frozen_a", 0, 1, 0},    {"frozen_b", 0, 1, 0}, {0}};

const bench_set bench_gemm_sets[] = {{"squares", "512 m=512 n=512 k=512\n"
                                                 "768 m=768 n=768 k=768\n"
                                                 "1024 m=1024 n=1024 k=1024\n"
                                                 "1536 m=1536 n=1536 k=1536\n"
                                                 "2048 m=2048 n=2048 k=2048\n"
                                                 "3072 m=3072 n=3072 k=3072\n"
                                                 "4096 m=4096 n=4096 k=4096\n"},
                                     {"small", "64 m=64 n=64 k=64\n"
                                               "128 m=128 n=128 k=128\n"
                                               "256 m=256 n=256 k=256\n"},
                                     {"networks", /* 40 shapes of at least 4 MFLOP */
                                      /* fully connected, x [batch, in] by W [out, in] transposed */
                                      "vgg16.fc7@1 m=1 n=4096 k=4096 trans_b frozen_b\n"
                                      "vgg16.fc8@1 m=1 n=1000 k=4096 trans_b frozen_b\n"
                                      "resnet50.fc@1 m=1 n=1000 k=2048 trans_b frozen_b\n"
                                      "bert.ffn1@1 m=1 n=3072 k=768 trans_b frozen_b\n"
                                      "bert.ffn2@1 m=1 n=768 k=3072 trans_b frozen_b\n"
                                      "gpt2m.qkv@1 m=1 n=3072 k=1024 trans_b frozen_b\n"
                                      "vgg16.fc7@8 m=8 n=4096 k=4096 trans_b frozen_b\n"
                                      "vgg16.fc8@8 m=8 n=1000 k=4096 trans_b frozen_b\n"
                                      "resnet50.fc@8 m=8 n=1000 k=2048 trans_b frozen_b\n"
                                      "bert.ffn1@8 m=8 n=3072 k=768 trans_b frozen_b\n"
                                      "bert.ffn2@8 m=8 n=768 k=3072 trans_b frozen_b\n"
                                      "mlp.fc1@8 m=8 n=512 k=784 trans_b frozen_b\n"
                                      "vgg16.fc7@64 m=64 n=4096 k=4096 trans_b frozen_b\n"
                                      "resnet50.fc@64 m=64 n=1000 k=2048 trans_b frozen_b\n"
                                      "bert.ffn1@64 m=64 n=3072 k=768 trans_b frozen_b\n"
                                      "bert.ffn2@64 m=64 n=768 k=3072 trans_b frozen_b\n"
                                      "bert.proj@64 m=64 n=768 k=768 trans_b frozen_b\n"
                                      "mlp.fc1@64 m=64 n=256 k=784 trans_b frozen_b\n"
                                      /* attention: Q by K transposed, and what comes out by V, for each head */
                                      "bert.scores m=128 n=128 k=64 batch=12 trans_b\n"
                                      "bert.values m=128 n=64 k=128 batch=12\n"
                                      "gpt2.scores m=512 n=512 k=64 batch=12 trans_b\n"
                                      "gpt2.values m=512 n=64 k=512 batch=12\n"
                                      "vit.scores m=197 n=197 k=64 batch=12 trans_b\n"
                                      "vit.values m=197 n=64 k=197 batch=12\n"
                                      "decode.scores m=1 n=1024 k=64 batch=96 trans_b\n"
                                      /* convolutions of 1x1: W [out, in] by x [in, pixels] */
                                      "resnet50.2.reduce m=64 n=3136 k=256 frozen_a\n"
                                      "resnet50.2.expand m=256 n=3136 k=64 frozen_a\n"
                                      "resnet50.3.reduce m=128 n=784 k=512 frozen_a\n"
                                      "resnet50.4.expand m=1024 n=196 k=256 frozen_a\n"
                                      "resnet50.5.reduce m=512 n=49 k=2048 frozen_a\n"
                                      "resnet50.5.expand m=2048 n=49 k=512 frozen_a\n"
                                      "mobilenetv2.2.expand m=96 n=12544 k=16 frozen_a\n"
                                      "mobilenetv2.5.project m=64 n=196 k=384 frozen_a\n"
                                      "mobilenetv2.last m=1280 n=49 k=320 frozen_a\n"
                                      /* sizes that divide nothing */
                                      "odd.a m=333 n=555 k=777\n"
                                      "odd.b m=1000 n=1000 k=1000\n"
                                      "odd.c m=97 n=1009 k=211\n"
                                      "odd.d m=127 n=129 k=131\n"
                                      "odd.narrow m=2000 n=3 k=701\n"
                                      "odd.flat m=17 n=2003 k=301\n"},
                                     {"frozen", /* b is a weight, for products by matrix units */
                                      "1024 m=1024 n=1024 k=1024 frozen_b\n"
                                      "1536 m=1536 n=1536 k=1536 frozen_b\n"
                                      "2048 m=2048 n=2048 k=2048 frozen_b\n"
                                      "vgg16.fc7@8 m=8 n=4096 k=4096 trans_b frozen_b\n"
                                      "bert.ffn1@8 m=8 n=3072 k=768 trans_b frozen_b\n"
                                      "vgg16.fc7@64 m=64 n=4096 k=4096 trans_b frozen_b\n"
                                      "resnet50.fc@64 m=64 n=1000 k=2048 trans_b frozen_b\n"
                                      "bert.ffn1@64 m=64 n=3072 k=768 trans_b frozen_b\n"
                                      "bert.ffn2@64 m=64 n=768 k=3072 trans_b frozen_b\n"
                                      "bert.proj@64 m=64 n=768 k=768 trans_b frozen_b\n"
                                      "bert.ffn1@512 m=512 n=3072 k=768 trans_b frozen_b\n"},
                                     {0}};
