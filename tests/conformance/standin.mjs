// What every drive.mjs needs: the vendor's client as it is installed, and the stand-in's control.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export const load = (packages, name) => import(pathToFileURL(createRequire(`${packages}/x.js`).resolve(name)));

export const standin = (control) => {
  const order = async (body) => {
    const response = await fetch(`${control}/_control`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 200);
  };
  return {
    order,
    queue: (...replies) => order({ replies }),
    requests: async () => (await fetch(`${control}/_requests`)).json(),
  };
};
