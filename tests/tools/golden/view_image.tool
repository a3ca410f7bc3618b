view_image

Look at an image file of the sandbox: PNG, JPEG, GIF or WebP, at most 10 MiB.

{"type":"object","properties":{"path":{"type":"string","description":"Absolute, or relative to /workspace."}},"required":["path"],"additionalProperties":false}
