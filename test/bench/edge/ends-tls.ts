/** Loaded before the server: its HTTP server ends TLS itself, as without an edge. Files by BENCH_TLS_CERT and BENCH_TLS_KEY. */
import { readFileSync } from "node:fs";

const { BENCH_TLS_CERT = "", BENCH_TLS_KEY = "" } = process.env;
const tls = { cert: readFileSync(BENCH_TLS_CERT), key: readFileSync(BENCH_TLS_KEY) };
const serve = Bun.serve as (options: object) => unknown;
Object.assign(Bun, { serve: (options: object) => serve({ ...options, tls }) });
