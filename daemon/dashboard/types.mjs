// Writes the types of the head's answers: types.mjs OPENAPI TYPES. An unchanged file keeps its time.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const [openapi, types] = process.argv.slice(2);
const { components } = JSON.parse(readFileSync(openapi, "utf8"));
// The page needs the answers alone.
const text = `// Made by types.mjs from the head's description of its API.\n${astToString(await openapiTS({ openapi: "3.1.0", info: { title: "rtrain", version: "" }, paths: {}, components: { schemas: components.schemas } }, { emptyObjectsUnknown: true }))}`;
if (!existsSync(types) || readFileSync(types, "utf8") !== text) writeFileSync(types, text);
