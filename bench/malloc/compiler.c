/* SPDX-License-Identifier: MIT */
/* compiler: nodes of trees. A round is a function of a program: it is parsed into a tree, with the
 * names that are seen for the first time kept for good; passes replace nodes; the tree goes. */
#include "malloc/pattern.h"

#define DEPTH 9
#define NAMES 4096 /* a power of two */

struct node {
	struct node *left, *right;
	struct name *name;
	uint32_t *users; /* grows as an array does */
	uint32_t user_count, kind;
	char payload[];
};

struct name {
	struct name *next;
	uint32_t hash;
	char text[];
};

struct compiler {
	struct worker *w;
	struct name *names[NAMES];
	uint32_t seen;
};

static struct name *intern(struct compiler *c)
{
	struct worker *w = c->w;
	uint32_t hash = random_below(w, 4) ? random_below(w, c->seen + 1) : c->seen++;
	struct name **at = &c->names[hash % NAMES], *n;
	size_t len = 3 + hash * 7 % 30;
	char *token = w_malloc(w, len + 1);

	memset(token, 'a' + (int)(hash % 26), len);
	token[len] = 0;
	for (n = *at; n && n->hash != hash; n = n->next)
		continue;
	if (!n) {
		n = w_malloc(w, sizeof(*n) + len + 1);
		*n = (struct name){*at, hash};
		memcpy(n->text, token, len + 1);
		*at = n;
	}
	w_free(w, token);
	return n;
}

static struct node *node_new(struct worker *w, uint32_t kind)
{
	static const uint8_t payload[] = {0, 8, 8, 16, 24, 40, 72, 120};
	size_t n = payload[kind % sizeof(payload)];
	struct node *node = w_malloc(w, sizeof(*node) + n);

	*node = (struct node){.kind = kind};
	memset(node->payload, (int)kind & 0xff, n);
	return node;
}

static struct node *parse(struct compiler *c, unsigned depth)
{
	struct node *n = node_new(c->w, random_next(c->w));

	if (n->kind % 8 == 0)
		n->name = intern(c);
	if (!depth)
		return n;
	n->left = parse(c, depth - 1);
	if (random_below(c->w, 8))
		n->right = parse(c, depth - 1);
	return n;
}

static void add_user(struct worker *w, struct node *n, uint32_t user)
{
	if ((n->user_count & (n->user_count - 1)) == 0)
		n->users = w_realloc(w, n->users,
				     (n->user_count ? 2 * n->user_count : 1) * sizeof(*n->users));
	n->users[n->user_count++] = user;
}

/* A pass over the tree: some nodes give way to others. */
static struct node *rewrite(struct worker *w, struct node *n, uint32_t pass)
{
	if (!n)
		return NULL;
	n->left = rewrite(w, n->left, pass);
	n->right = rewrite(w, n->right, pass);
	add_user(w, n, pass);
	if ((n->kind ^ pass) % 4 == 0) {
		struct node *with = node_new(w, n->kind * 31 + pass);

		with->left = n->left;
		with->right = n->right;
		with->name = n->name;
		w_free(w, n->users);
		w_free(w, n);
		n = with;
	}
	return n;
}

static void tree_drop(struct worker *w, struct node *n)
{
	if (!n)
		return;
	tree_drop(w, n->left);
	tree_drop(w, n->right);
	if (n->users)
		w_free(w, n->users);
	w_free(w, n);
}

static void compiler_work(struct worker *w)
{
	struct compiler *c = w_calloc(w, sizeof(*c));

	c->w = w;
	for (uint64_t i = 0; i < w->rounds; i++) {
		struct node *tree = parse(c, random_between(w, 2, DEPTH));

		for (uint32_t pass = 0; pass < 4; pass++)
			tree = rewrite(w, tree, pass);
		tree_drop(w, tree);
	}
	for (unsigned i = 0; i < NAMES; i++)
		while (c->names[i]) {
			struct name *next = c->names[i]->next;

			w_free(w, c->names[i]);
			c->names[i] = next;
		}
	w_free(w, c);
}

PATTERN(compiler, "compiler", 12000, compiler_work);
