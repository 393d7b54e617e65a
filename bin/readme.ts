/** Puts the reference of the configuration into README.md, between its two marks: `bin/bun bin/readme.ts`. */
import { join } from "node:path";
import { documentConfig } from "../src/kernel/config/document.ts";

const path = join(import.meta.dir, "../README.md");
const readme = await Bun.file(path).text();
await Bun.write(
  path,
  readme.replace(
    /(<!-- configuration -->\n)[\s\S]*(\n<!-- \/configuration -->)/,
    (_, start, end) => `${start}${documentConfig()}${end}`,
  ),
);
