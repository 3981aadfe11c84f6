// One Chromium for all scenarios. `chromium.mjs PROGRAM` writes the address for scenarios, and ends with its standard
// input.
import { once } from "node:events";
import { chromium } from "playwright-core";

// saves the work of emulating a GPU
const args = ["--disable-gpu", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])];
const server = await chromium.launchServer({ executablePath: process.argv[2], args });
console.log(server.wsEndpoint());
await once(process.stdin.resume(), "end");
await server.close();
