static inline bool wide_load_writes(const void *p, size_t n) { (void)p;(void)n; return getenv("SKIPW") && ((size_t)p%16+n<=16); }
static inline bool wide_big_endian(void) { return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__; }
