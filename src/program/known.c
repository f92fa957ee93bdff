/* Known answers of bundle kernels: small values, exact in most cases, that can be checked by hand. */
#include "program/known.h"

#include <stdint.h>

#define LIST(type, ...) \
  { (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) }
#define F(...) LIST(float, __VA_ARGS__)
#define I(...) LIST(int32_t, __VA_ARGS__)
#define B(...) LIST(int8_t, __VA_ARGS__)
#define L(...) LIST(int64_t, __VA_ARGS__)
#define NONE4  I(0, 0, 0, 0)
#define NONE8  I(0, 0, 0, 0, 0, 0, 0, 0)
#define NONE16 F(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
/* Encoding of an elementwise program: function number and operand numbers. */
#define OF(function, a, b) ((function) | (a) << 11 | (b) << 15)
enum { ADD = 160, MUL = 162, RELU = 1, RESULT0 = 8 };

/* (1 2 3; 4 5 6) (1 -1; 2 0; 3 1) = (14 2; 32 2); then doubled, (-30 1) added, and ReLU. */
#define PRODUCT                                                                                          \
  I(1, 1, 2, 1, 1, 2, 3, 2), I(1, 3, 1, OPERANDS), I(0, 0, 3, 0, 1, 0, 0, 0), I(0, 0, 0, 0, 2, 1, 0, 0), \
      I(0, 1, 0, 1, 1, 0, 0, 1)
#define OPERANDS 1
static const clade__known_value array_f32[] = {F(1, 2, 3, 4, 5, 6),
                                               F(1, -1, 2, 0, 3, 1),
                                               F(0, 5, 34, 5),
                                               PRODUCT,
                                               F(2),
                                               I(OF(ADD, 0, 1), OF(RELU, RESULT0, 0), 0, 0, 0, 0, 0, 0),
                                               NONE16,
                                               F(-30, 1),
                                               I(0, 0, 0, 1),
                                               F(0),
                                               NONE4,
                                               F(0),
                                               NONE4};
#undef OPERANDS
#define OPERANDS 0
static const clade__known_value array_i8[] = {B(1, 2, 3, 4, 5, 6),
                                              B(1, -1, 2, 0, 3, 1),
                                              I(14, 2, 32, 2),
                                              PRODUCT,
                                              F(1),
                                              NONE8,
                                              NONE16,
                                              F(0),
                                              NONE4,
                                              F(0),
                                              NONE4,
                                              F(0),
                                              NONE4};

static const clade__known_value eltwise[] = {
    F(1, 2, 3, 4), I(0, 0, 2, 1), F(10, 20),         I(0, 0, 0, 1), F(0), NONE4,
    F(0),          NONE4,         F(11, 22, 13, 24), I(1, 1, 2, 2), I(2), I(OF(ADD, 0, 1), 0, 0, 0, 0, 0, 0, 0),
    NONE16};
static const clade__known_value eltwise_i64[] = {
    L(7, INT64_C(1) << 40), L(3), L(21, INT64_C(3) << 40), I(2), I(1), I(0), I(MUL)};

/* maximum of each 2 x 2 square of (1 2 3 4; 5 6 7 8) */
static const clade__known_value pool2d[] = {F(1, 2, 3, 4, 5, 6, 7, 8), F(6, 8), I(1, 2, 4, 1, 2, 2, 2, 0),
                                            I(2, 1, 0, 1, 2, 1, 0, 1), I(1)};
static const clade__known_value pool2d_grad[] = {F(1, 2, 3, 4, 5, 6, 7, 8),   F(10, 20),
                                                 F(0, 0, 0, 0, 0, 10, 0, 20), I(1, 2, 4, 1, 2, 2, 2, 0),
                                                 I(2, 1, 0, 1, 2, 1, 0, 1),   I(1)};

static const clade__known_value softmax[] = {F(0, 0.69314718f), F(1 / 3.0f, 2 / 3.0f), I(1), I(2), I(1), I(0)};
static const clade__known_value softmax_grad[] = {F(0.25f, 0.75f), F(1, 5), F(-0.75f, 0.75f), I(1), I(2), I(1), I(0)};
static const clade__known_value arg_max[] = {F(1, 5, 2), I(1), I(1), I(3), I(1)};
static const clade__known_value cross_entropy[] = {F(0, 0), I(1), F(0.69314718f), F(0, 1), F(1), I(1),
                                                   I(1),    I(2), F(0),           I(0),    I(0), I(1)};
static const clade__known_value cross_entropy_grad[] = {F(0, 0), I(1), F(0, 1), F(1), F(1), F(0.5f, -0.5f),
                                                        I(1),    I(2), I(0),    F(0), I(0), I(0)};
static const clade__known_value reduce[] = {
    F(1, 2, 3, 4), F(3, 7), I(2), I(1, 1, 1, 2, 1, 1, 1, 2), I(0, 0, 0, 2, 0, 0, 0, 1), I(0), F(1)};
/* SGD: (1 1) - 0.5 (2 4) */
static const clade__known_value update[] = {F(0.5f), L(1), F(1), F(1), F(2, 4), F(1, 1), F(0, -1),
                                            F(0),    F(0), F(0), F(0), I(2),    I(0),    F(100, 0, 0, 0, 0, 0, 0, 0)};

/* (1 2 3 4) with mean 2.5 and variance 1.25, weight 2 and bias 1: two samples, one channel, two pixels */
static const clade__known_value batch_norm[] = {
    F(1, 2, 3, 4), F(2),           F(1),     F(0),        F(1), F(-1.68328157f, 0.10557281f, 1.89442719f, 3.68328157f),
    F(2.5f),       F(0.89442719f), F(1.25f), F(4 / 3.0f), I(2), I(1),
    I(2),          F(0),           F(0.5f)};
static const clade__known_value batch_norm_grad[] = {
    F(1, 2, 3, 4), F(0, 0, 0, 2), F(2), F(2.5f), F(0.5f), F(-0.21875f, -0.40625f, -0.59375f, 1.21875f),
    F(1.5f),       F(2),          I(2), I(1),    I(2)};

#define ROW(kernel) \
  { #kernel, kernel, sizeof(kernel) / sizeof *(kernel) }
const clade__known clade__known_answers[] = {
    ROW(array_f32),          ROW(array_i8), ROW(eltwise),      ROW(eltwise_i64), ROW(pool2d),
    ROW(pool2d_grad),        ROW(softmax),  ROW(softmax_grad), ROW(arg_max),     ROW(cross_entropy),
    ROW(cross_entropy_grad), ROW(reduce),   ROW(update),       ROW(batch_norm),  ROW(batch_norm_grad),
    {NULL, NULL, 0}};
