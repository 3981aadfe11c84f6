// One Chromium for all scenarios: chromium.mjs PROGRAM writes the address that a scenario connects to, and ends with its input.
import { once } from "node:events";
import { chromium } from "playwright-core";

const args = ["--disable-gpu", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])]; // without a GPU's emulation: less work
const server = await chromium.launchServer({ executablePath: process.argv[2], args });
console.log(server.wsEndpoint());
await once(process.stdin.resume(), "end");
await server.close();
