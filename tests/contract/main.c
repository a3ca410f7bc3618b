/* usage: contract BACKEND GROUP [TARGET] */
#include "contract.h"

#include <stdio.h>
#include <string.h>

const char *contract_backend;
const char *contract_target = "";

static const struct {
    const char *name;
    const struct CMUnitTest *cases;
    const size_t *count;
} groups[] = {
    { "exec", exec_cases, &exec_case_count },
    { "files", file_cases, &file_case_count },
    { "life", life_cases, &life_case_count },
    { "background", background_cases, &background_case_count },
    { "spares", spare_cases, &spare_case_count },
    { "terminal", terminal_cases, &terminal_case_count },
    { "snapshot", snapshot_cases, &snapshot_case_count },
    { "machine", machine_cases, &machine_case_count },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc >= 3 && i < sizeof groups / sizeof *groups; i++) {
        if (strcmp(argv[2], groups[i].name) == 0) {
            contract_backend = argv[1];
            contract_target = argc > 3 ? argv[3] : "";
            return !!_cmocka_run_group_tests(argv[2], groups[i].cases, *groups[i].count, NULL,
                                             NULL);
        }
    }
    fprintf(stderr, "usage: contract BACKEND exec|files|life|terminal|background|spares|snapshot|"
                    "machine [TARGET]\n");
    return 2;
}
