/* SPDX-License-Identifier: MIT */
/* trace_fields: the fields of a tracepoint, for trace.h.
 *
 * Cost:      a tracepoint whose fields have 8 bytes or less together builds one word in registers.
 * Memory:    none.
 * Safety:    any thread, signal handlers.
 * Order:     none.
 * Fallback:  the same code everywhere.
 *
 * A field is a pair (type, name), and becomes a parameter of the tracepoint's function:
 *
 *     bool  u8 u16 u32 u64  i8 i16 i32 i64  f32 f64     the number
 *     x8 x16 x32 x64                                    an unsigned one, shown in hexadecimal
 *     ptr        const void *name
 *     string     const char *name; NULL is shown as (null)
 *     bytes      const void *name, size_t name_size
 *     array_T    const T *name, size_t name_count; T is one of the numeric types but bool
 *     enum       (enum, name, TAG, LABEL, ...): enum TAG name; up to 64 labels, enumerators
 *
 * Macros of the program must not have the names of these types, nor of its fields.
 *
 *     NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, (u32, id), (string, customer),
 *                     (enum, state, state, OPEN, PAID, SENT));
 *
 * Source: the idea of LTTng's and the kernel's trace event macros, in one line.
 */
#ifndef NEARCPU_TRACE_FIELDS_H
#define NEARCPU_TRACE_FIELDS_H

#include <nearcpu/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef NEAR_TRACE_USDT
#include <sys/sdt.h> /* of systemtap-sdt-dev */
#endif

NEAR__BEGIN_DECLS

/* ---- lists ---- */

#define NEAR__TRACE_CAT(a, b) NEAR__TRACE_CAT_(a, b)
#define NEAR__TRACE_CAT_(a, b) a##b
#define NEAR__TRACE_NOTHING()
#define NEAR__TRACE_COMMA() ,
#define NEAR__TRACE_SEMICOLON() ";"
/* clang-format off */
/* The 131st of its arguments: behind some arguments and a list, it counts them. */
#define NEAR__TRACE_SELECT(...) NEAR__TRACE_SELECT_(__VA_ARGS__)
#define NEAR__TRACE_SELECT_( \
	a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, \
	a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, \
	a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, \
	a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, a65, a66, a67, a68, a69, a70, \
	a71, a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83, a84, a85, a86, a87, \
	a88, a89, a90, a91, a92, a93, a94, a95, a96, a97, a98, a99, a100, a101, a102, a103, \
	a104, a105, a106, a107, a108, a109, a110, a111, a112, a113, a114, a115, a116, a117, \
	a118, a119, a120, a121, a122, a123, a124, a125, a126, a127, a128, a129, a130, n, ...) n
/* How many there are, 1 to 64, as (blocks of eight, a rest of 1 to 8). */
#define NEAR__TRACE_COUNT(...) NEAR__TRACE_COUNT_(__VA_ARGS__, \
	(7, 8), (7, 7), (7, 6), (7, 5), (7, 4), (7, 3), (7, 2), (7, 1), (6, 8), (6, 7), (6, 6), \
	(6, 5), (6, 4), (6, 3), (6, 2), (6, 1), (5, 8), (5, 7), (5, 6), (5, 5), (5, 4), (5, 3), \
	(5, 2), (5, 1), (4, 8), (4, 7), (4, 6), (4, 5), (4, 4), (4, 3), (4, 2), (4, 1), (3, 8), \
	(3, 7), (3, 6), (3, 5), (3, 4), (3, 3), (3, 2), (3, 1), (2, 8), (2, 7), (2, 6), (2, 5), \
	(2, 4), (2, 3), (2, 2), (2, 1), (1, 8), (1, 7), (1, 6), (1, 5), (1, 4), (1, 3), (1, 2), \
	(1, 1), (0, 8), (0, 7), (0, 6), (0, 5), (0, 4), (0, 3), (0, 2), (0, 1), 0)
#define NEAR__TRACE_COUNT_( \
	a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, \
	a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, \
	a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, \
	a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, n, ...) n
#define NEAR__TRACE_PAIR(blocks, rest) blocks, rest

/* m (item) for each of up to 64 items, with sep() between them: eight at a time. A list that loses
 * one item at a time is scanned once for each, which takes compilers longer. */
#define NEAR__TRACE_EACH(m, sep, ...) \
	NEAR__TRACE_E_(NEAR__TRACE_COUNT(__VA_ARGS__), m, sep, __VA_ARGS__)
#define NEAR__TRACE_E_(pair, ...) NEAR__TRACE_E__(NEAR__TRACE_PAIR pair, __VA_ARGS__)
#define NEAR__TRACE_E__(...) NEAR__TRACE_E___(__VA_ARGS__)
#define NEAR__TRACE_E___(blocks, ...) NEAR__TRACE_EB##blocks(__VA_ARGS__)
#define NEAR__TRACE_E1(m, s, a) m a
#define NEAR__TRACE_E2(m, s, a, b) m a s() m b
#define NEAR__TRACE_E3(m, s, a, b, c) m a s() m b s() m c
#define NEAR__TRACE_E4(m, s, a, b, c, d) m a s() m b s() m c s() m d
#define NEAR__TRACE_E5(m, s, a, b, c, d, e) m a s() m b s() m c s() m d s() m e
#define NEAR__TRACE_E6(m, s, a, b, c, d, e, f) m a s() m b s() m c s() m d s() m e s() m f
#define NEAR__TRACE_E7(m, s, a, b, c, d, e, f, g) \
	m a s() m b s() m c s() m d s() m e s() m f s() m g
#define NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) \
	m a s() m b s() m c s() m d s() m e s() m f s() m g s() m h
#define NEAR__TRACE_EB0(r, m, s, ...) NEAR__TRACE_E##r(m, s, __VA_ARGS__)
#define NEAR__TRACE_EB1(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB0(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB2(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB1(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB3(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB2(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB4(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB3(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB5(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB4(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB6(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB5(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_EB7(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_E8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_EB6(r, m, s, __VA_ARGS__)

/* m(label): the same, within the other. */
#define NEAR__TRACE_LABELS(m, sep, ...) \
	NEAR__TRACE_L_(NEAR__TRACE_COUNT(__VA_ARGS__), m, sep, __VA_ARGS__)
#define NEAR__TRACE_L_(pair, ...) NEAR__TRACE_L__(NEAR__TRACE_PAIR pair, __VA_ARGS__)
#define NEAR__TRACE_L__(...) NEAR__TRACE_L___(__VA_ARGS__)
#define NEAR__TRACE_L___(blocks, ...) NEAR__TRACE_LB##blocks(__VA_ARGS__)
#define NEAR__TRACE_L1(m, s, a) m(a)
#define NEAR__TRACE_L2(m, s, a, b) m(a) s() m(b)
#define NEAR__TRACE_L3(m, s, a, b, c) m(a) s() m(b) s() m(c)
#define NEAR__TRACE_L4(m, s, a, b, c, d) m(a) s() m(b) s() m(c) s() m(d)
#define NEAR__TRACE_L5(m, s, a, b, c, d, e) m(a) s() m(b) s() m(c) s() m(d) s() m(e)
#define NEAR__TRACE_L6(m, s, a, b, c, d, e, f) m(a) s() m(b) s() m(c) s() m(d) s() m(e) s() m(f)
#define NEAR__TRACE_L7(m, s, a, b, c, d, e, f, g) \
	m(a) s() m(b) s() m(c) s() m(d) s() m(e) s() m(f) s() m(g)
#define NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) \
	m(a) s() m(b) s() m(c) s() m(d) s() m(e) s() m(f) s() m(g) s() m(h)
#define NEAR__TRACE_LB0(r, m, s, ...) NEAR__TRACE_L##r(m, s, __VA_ARGS__)
#define NEAR__TRACE_LB1(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB0(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB2(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB1(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB3(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB2(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB4(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB3(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB5(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB4(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB6(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB5(r, m, s, __VA_ARGS__)
#define NEAR__TRACE_LB7(r, m, s, a, b, c, d, e, f, g, h, ...) \
	NEAR__TRACE_L8(m, s, a, b, c, d, e, f, g, h) s() NEAR__TRACE_LB6(r, m, s, __VA_ARGS__)
/* clang-format on */

/* ---- types ---- */

/* A kind, the type that is stored, and the name in the file. */
#define NEAR__TRACE_T_bool near__number, bool, "bool "
#define NEAR__TRACE_T__Bool near__number, bool, "bool "
#define NEAR__TRACE_T_u8 near__number, uint8_t, "u8 "
#define NEAR__TRACE_T_u16 near__number, uint16_t, "u16 "
#define NEAR__TRACE_T_u32 near__number, uint32_t, "u32 "
#define NEAR__TRACE_T_u64 near__number, uint64_t, "u64 "
#define NEAR__TRACE_T_i8 near__number, int8_t, "i8 "
#define NEAR__TRACE_T_i16 near__number, int16_t, "i16 "
#define NEAR__TRACE_T_i32 near__number, int32_t, "i32 "
#define NEAR__TRACE_T_i64 near__number, int64_t, "i64 "
#define NEAR__TRACE_T_x8 near__number, uint8_t, "x8 "
#define NEAR__TRACE_T_x16 near__number, uint16_t, "x16 "
#define NEAR__TRACE_T_x32 near__number, uint32_t, "x32 "
#define NEAR__TRACE_T_x64 near__number, uint64_t, "x64 "
#define NEAR__TRACE_T_f32 near__real, float, "f32 "
#define NEAR__TRACE_T_f64 near__real, double, "f64 "
#define NEAR__TRACE_T_ptr near__pointer, uint64_t, "ptr "
#define NEAR__TRACE_T_string near__string, char, "string "
#define NEAR__TRACE_T_bytes near__bytes, char, "bytes "
#define NEAR__TRACE_T_enum near__enum, int32_t, "enum "
#define NEAR__TRACE_T_array_u8 near__array, uint8_t, "array_u8 "
#define NEAR__TRACE_T_array_u16 near__array, uint16_t, "array_u16 "
#define NEAR__TRACE_T_array_u32 near__array, uint32_t, "array_u32 "
#define NEAR__TRACE_T_array_u64 near__array, uint64_t, "array_u64 "
#define NEAR__TRACE_T_array_i8 near__array, int8_t, "array_i8 "
#define NEAR__TRACE_T_array_i16 near__array, int16_t, "array_i16 "
#define NEAR__TRACE_T_array_i32 near__array, int32_t, "array_i32 "
#define NEAR__TRACE_T_array_i64 near__array, int64_t, "array_i64 "
#define NEAR__TRACE_T_array_x8 near__array, uint8_t, "array_x8 "
#define NEAR__TRACE_T_array_x16 near__array, uint16_t, "array_x16 "
#define NEAR__TRACE_T_array_x32 near__array, uint32_t, "array_x32 "
#define NEAR__TRACE_T_array_x64 near__array, uint64_t, "array_x64 "
#define NEAR__TRACE_T_array_f32 near__array, float, "array_f32 "
#define NEAR__TRACE_T_array_f64 near__array, double, "array_f64 "

/* op##_##kind(stored, text, name, ...) of a field. Kinds are no words that a program may have made
 * macros: its scanner has a NUMBER and a STRING. */
#define NEAR__TRACE_OF(op, type, ...)                                                              \
	NEAR__TRACE_CALL(op, NEAR__TRACE_CAT(NEAR__TRACE_T_, type), __VA_ARGS__)
#define NEAR__TRACE_CALL(...) NEAR__TRACE_CALL_(__VA_ARGS__)
#define NEAR__TRACE_CALL_(op, kind, ...) op##_##kind(__VA_ARGS__)

/* The parameters. */
#define NEAR__TRACE_PARAM(...) NEAR__TRACE_OF(NEAR__TRACE_PARAM, __VA_ARGS__)
#define NEAR__TRACE_PARAM_near__number(stored, text, name) stored name
#define NEAR__TRACE_PARAM_near__real(stored, text, name) stored name
#define NEAR__TRACE_PARAM_near__pointer(stored, text, name) const void *name
#define NEAR__TRACE_PARAM_near__string(stored, text, name) const char *name
#define NEAR__TRACE_PARAM_near__bytes(stored, text, name) const void *name, size_t name##_size
#define NEAR__TRACE_PARAM_near__array(stored, text, name) const stored *name, size_t name##_count
#define NEAR__TRACE_PARAM_near__enum(stored, text, name, tag, ...) enum tag name

/* The arguments, for a call with the same parameters. */
#define NEAR__TRACE_PASS(...) NEAR__TRACE_OF(NEAR__TRACE_PASS, __VA_ARGS__)
#define NEAR__TRACE_PASS_near__number(stored, text, name) name
#define NEAR__TRACE_PASS_near__real(stored, text, name) name
#define NEAR__TRACE_PASS_near__pointer(stored, text, name) name
#define NEAR__TRACE_PASS_near__string(stored, text, name) name
#define NEAR__TRACE_PASS_near__bytes(stored, text, name) name, name##_size
#define NEAR__TRACE_PASS_near__array(stored, text, name) name, name##_count
#define NEAR__TRACE_PASS_near__enum(stored, text, name, tag, ...) name

/* The text: each label is followed by `%`, for which its value is put in when the tracepoint is
 * registered. */
#define NEAR__TRACE_TEXT(...) NEAR__TRACE_OF(NEAR__TRACE_TEXT, __VA_ARGS__)
#define NEAR__TRACE_TEXT_near__number(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__real(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__pointer(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__string(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__bytes(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__array(stored, text, name) text #name
#define NEAR__TRACE_TEXT_near__enum(stored, text, name, tag, ...)                                  \
	text #tag "{" NEAR__TRACE_LABELS(NEAR__TRACE_LABEL, NEAR__TRACE_COMMA_TEXT,                \
					 __VA_ARGS__) "} " #name
#define NEAR__TRACE_LABEL(label) #label "=%"
#define NEAR__TRACE_COMMA_TEXT() ","

/* The values of all labels. */
#define NEAR__TRACE_VALUES(...) NEAR__TRACE_OF(NEAR__TRACE_VALUES, __VA_ARGS__)
#define NEAR__TRACE_VALUES_near__number(stored, text, name)
#define NEAR__TRACE_VALUES_near__real(stored, text, name)
#define NEAR__TRACE_VALUES_near__pointer(stored, text, name)
#define NEAR__TRACE_VALUES_near__string(stored, text, name)
#define NEAR__TRACE_VALUES_near__bytes(stored, text, name)
#define NEAR__TRACE_VALUES_near__array(stored, text, name)
#define NEAR__TRACE_VALUES_near__enum(stored, text, name, tag, ...)                                \
	NEAR__TRACE_LABELS(NEAR__TRACE_VALUE, NEAR__TRACE_NOTHING, __VA_ARGS__)
#define NEAR__TRACE_VALUE(label) (int32_t)(label),

/* Bytes of the payload; more than any record for what has no fixed size. */
#define NEAR__TRACE_VARIABLE ((size_t)1 << 20)
#define NEAR__TRACE_SIZE(...) NEAR__TRACE_OF(NEAR__TRACE_SIZE, __VA_ARGS__)
#define NEAR__TRACE_SIZE_near__number(stored, text, name) +sizeof(stored)
#define NEAR__TRACE_SIZE_near__real(stored, text, name) +sizeof(stored)
#define NEAR__TRACE_SIZE_near__pointer(stored, text, name) +sizeof(stored)
#define NEAR__TRACE_SIZE_near__string(stored, text, name) +NEAR__TRACE_VARIABLE
#define NEAR__TRACE_SIZE_near__bytes(stored, text, name) +NEAR__TRACE_VARIABLE
#define NEAR__TRACE_SIZE_near__array(stored, text, name) +NEAR__TRACE_VARIABLE
#define NEAR__TRACE_SIZE_near__enum(stored, text, name, tag, ...) +sizeof(stored)

/* ---- payloads ---- */

NEAR__INLINE uint64_t near__trace_bits_float(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

NEAR__INLINE uint64_t near__trace_bits_double(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

/* Of fields that have 8 bytes or less together: near__bits |= the field's, at near__shift. In
 * registers: a load of 8 bytes that were stored in parts would wait for the stores. */
#define NEAR__TRACE_BITS(...) NEAR__TRACE_OF(NEAR__TRACE_BITS, __VA_ARGS__)
#define NEAR__TRACE_BITS_near__number(stored, text, name)                                          \
	NEAR__TRACE_ADD_BITS((uint64_t)(name) & (UINT64_MAX >> (64 - 8 * sizeof(stored))), stored)
#define NEAR__TRACE_BITS_near__real(stored, text, name)                                            \
	NEAR__TRACE_ADD_BITS(NEAR__TRACE_CAT(near__trace_bits_, stored)(name), stored)
#define NEAR__TRACE_BITS_near__pointer(stored, text, name)                                         \
	NEAR__TRACE_ADD_BITS((uint64_t)(uintptr_t)(name), stored)
#define NEAR__TRACE_BITS_near__string(stored, text, name)
#define NEAR__TRACE_BITS_near__bytes(stored, text, name)
#define NEAR__TRACE_BITS_near__array(stored, text, name)
#define NEAR__TRACE_BITS_near__enum(stored, text, name, tag, ...)                                  \
	NEAR__TRACE_ADD_BITS((uint64_t)(uint32_t)(name), stored)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NEAR__TRACE_ADD_BITS(value, stored)                                                        \
	near__bits |= (value) << (near__shift & 63);                                               \
	near__shift += (unsigned)sizeof(stored) * 8;
#else
#define NEAR__TRACE_ADD_BITS(value, stored)                                                        \
	near__shift += (unsigned)sizeof(stored) * 8;                                               \
	near__bits |= (value) << ((64 - near__shift) & 63);
#endif

/* A part of a payload. */
struct near__trace_piece {
	const void *data;
	size_t size;
	/* Of what has a length: bytes of an element. The length is stored before the data. */
	size_t element;
};

/* What a piece of the field points to. */
#define NEAR__TRACE_LOCAL(...) NEAR__TRACE_OF(NEAR__TRACE_LOCAL, __VA_ARGS__)
#define NEAR__TRACE_LOCAL_near__number(stored, text, name)                                         \
	const stored near__at_##name = (stored)name;
#define NEAR__TRACE_LOCAL_near__real(stored, text, name) const stored near__at_##name = name;
#define NEAR__TRACE_LOCAL_near__pointer(stored, text, name)                                        \
	const stored near__at_##name = (uint64_t)(uintptr_t)name;
#define NEAR__TRACE_LOCAL_near__string(stored, text, name)                                         \
	__attribute__((unused)) const char *const near__at_##name = name ? name : "(null)";
#define NEAR__TRACE_LOCAL_near__bytes(stored, text, name)
#define NEAR__TRACE_LOCAL_near__array(stored, text, name)
#define NEAR__TRACE_LOCAL_near__enum(stored, text, name, tag, ...)                                 \
	const stored near__at_##name = (stored)name;

/* Appends the field to what is at near__put. */
#define NEAR__TRACE_PUT(...) NEAR__TRACE_OF(NEAR__TRACE_PUT, __VA_ARGS__)
#define NEAR__TRACE_PUT_FIXED(name)                                                                \
	memcpy(near__put, &near__at_##name, sizeof(near__at_##name));                              \
	near__put += sizeof(near__at_##name);
#define NEAR__TRACE_PUT_near__number(stored, text, name) NEAR__TRACE_PUT_FIXED(name)
#define NEAR__TRACE_PUT_near__real(stored, text, name) NEAR__TRACE_PUT_FIXED(name)
#define NEAR__TRACE_PUT_near__pointer(stored, text, name) NEAR__TRACE_PUT_FIXED(name)
#define NEAR__TRACE_PUT_near__string(stored, text, name)
#define NEAR__TRACE_PUT_near__bytes(stored, text, name)
#define NEAR__TRACE_PUT_near__array(stored, text, name)
#define NEAR__TRACE_PUT_near__enum(stored, text, name, tag, ...) NEAR__TRACE_PUT_FIXED(name)

#define NEAR__TRACE_PIECE(...) NEAR__TRACE_OF(NEAR__TRACE_PIECE, __VA_ARGS__)
#define NEAR__TRACE_PIECE_FIXED(name) {&near__at_##name, sizeof(near__at_##name), 0},
#define NEAR__TRACE_PIECE_near__number(stored, text, name) NEAR__TRACE_PIECE_FIXED(name)
#define NEAR__TRACE_PIECE_near__real(stored, text, name) NEAR__TRACE_PIECE_FIXED(name)
#define NEAR__TRACE_PIECE_near__pointer(stored, text, name) NEAR__TRACE_PIECE_FIXED(name)
#define NEAR__TRACE_PIECE_near__string(stored, text, name)                                         \
	{near__at_##name, strlen(near__at_##name), 1},
#define NEAR__TRACE_PIECE_near__bytes(stored, text, name) {name, name##_size, 1},
#define NEAR__TRACE_PIECE_near__array(stored, text, name)                                          \
	{name, name##_count * sizeof(*name), sizeof(*name)},
#define NEAR__TRACE_PIECE_near__enum(stored, text, name, tag, ...) NEAR__TRACE_PIECE_FIXED(name)

/* ---- probes ---- */

/* With NEAR_TRACE_USDT: a nop with a note, where perf(1), bpftrace(8) and others attach to
 * PROVIDER:EVENT, whether the tracepoint is on or not. Its arguments are those of the function, the
 * first 12. */
#ifdef NEAR_TRACE_USDT
#define NEAR__TRACE_PROBE(...) NEAR__TRACE_PROBE_(NEAR__TRACE_ARGUMENTS(__VA_ARGS__), __VA_ARGS__)
#define NEAR__TRACE_PROBE_(n, ...) NEAR__TRACE_PROBE_N(n, __VA_ARGS__)
#define NEAR__TRACE_PROBE_N(n, ...) NEAR__TRACE_CAT(NEAR__TRACE_PROBE_, n)(__VA_ARGS__)
#define NEAR__TRACE_PROBE_13(p, e, a, b, c, d, f, g, h, i, j, k, l, m, ...)                        \
	STAP_PROBE12(p, e, a, b, c, d, f, g, h, i, j, k, l, m)
#define NEAR__TRACE_PROBE_0(p, e) STAP_PROBE(p, e)
#define NEAR__TRACE_PROBE_1 STAP_PROBE1
#define NEAR__TRACE_PROBE_2 STAP_PROBE2
#define NEAR__TRACE_PROBE_3 STAP_PROBE3
#define NEAR__TRACE_PROBE_4 STAP_PROBE4
#define NEAR__TRACE_PROBE_5 STAP_PROBE5
#define NEAR__TRACE_PROBE_6 STAP_PROBE6
#define NEAR__TRACE_PROBE_7 STAP_PROBE7
#define NEAR__TRACE_PROBE_8 STAP_PROBE8
#define NEAR__TRACE_PROBE_9 STAP_PROBE9
#define NEAR__TRACE_PROBE_10 STAP_PROBE10
#define NEAR__TRACE_PROBE_11 STAP_PROBE11
#define NEAR__TRACE_PROBE_12 STAP_PROBE12
/* clang-format off */
/* Without provider and event: 0 to 12, or 13 for more of them, up to 128. */
#define NEAR__TRACE_ARGUMENTS(...) NEAR__TRACE_SELECT(__VA_ARGS__, \
	13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, \
	13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, \
	13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, \
	13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, \
	13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, \
	13, 13, 13, 13, 13, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0)
/* clang-format on */
#else
#define NEAR__TRACE_PROBE(...) (void)0
#endif

NEAR__END_DECLS

#endif
