/* Keeper mode: on the host, the parent of a program such as bwrap. */
#ifndef WALDO_HAND_KEEPER_H
#define WALDO_HAND_KEEPER_H

/* args: what follows "keeper"; returns the exit status. */
int keeper_main(int count, char **args);

#endif
