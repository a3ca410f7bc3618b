apply_patch

Add, change, delete and rename text files of the sandbox by one patch, which is applied as a whole or not at all. It is no unified diff: there are no line numbers. Form:
*** Begin Patch
*** Add File: path
+each line of the new file
*** Update File: path
*** Move to: new path (only to rename it)
@@ a line above the change, such as a class or function (only where it helps)
 line that stays
-line that goes
+line that comes
*** Delete File: path
*** End Patch
Each change shows about three unchanged lines before and after it; several changes of a file stand in its order, each begun by a line with @@. The line *** End of File behind a change says that it is at the end of the file.

{"type":"object","properties":{"patch":{"type":"string","description":"The whole patch, from *** Begin Patch to *** End Patch. Paths are relative to /workspace."}},"required":["patch"],"additionalProperties":false}

Text files in the sandbox are added, changed, renamed and deleted with apply_patch. Relative paths start at /workspace.
