import { join } from "node:path";

/** What Go has compiled for a test, and what a later run need not compile again. */
export const GO_CACHE = join(import.meta.dir, "../../.cache/go-build");
