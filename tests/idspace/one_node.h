/* SPDX-License-Identifier: MIT */
/* As on a machine with one node, where ids do not depend on the CPU that the test runs on. The
 * program is linked with --wrap=near__topology_nodes. */
#ifndef NEARCPU_TESTS_ONE_NODE_H
#define NEARCPU_TESTS_ONE_NODE_H

unsigned __wrap_near__topology_nodes(void);

unsigned __wrap_near__topology_nodes(void)
{
	return 1;
}

#endif
