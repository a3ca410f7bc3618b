#include "tools/v4a.h"

/*
 * Whole lines are terminals: servers that hold a model to it go through them byte by byte. It needs
 * no lookaround, lazy repetition, priority or import, which such servers' dialects of Lark lack. An
 * empty line is a kept one as long as another line of its hunk follows.
 */
const char waldo__v4a_grammar[] =
    "start: \"*** Begin Patch\\n\" section+ \"*** End Patch\" \"\\n\"?\n"
    "section: add | delete | update\n"
    "add: \"*** Add File: \" PATH ADDED*\n"
    "delete: \"*** Delete File: \" PATH\n"
    "update: \"*** Update File: \" PATH (lines hunk* | hunk+ | move lines? hunk*)\n"
    "move: \"*** Move to: \" PATH\n"
    "hunk: ANCHOR+ lines\n"
    "lines: LINE+ \"*** End of File\\n\"?\n"
    "PATH: /\\S.*\\n/\n"
    "ADDED: /\\+.*\\n/\n"
    "LINE: /\\n*[ +-].*\\n/\n"
    "ANCHOR: /@@( .*)?\\n/\n";
