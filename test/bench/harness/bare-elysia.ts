/** The floor: the same answer from a route that does nothing else. */
import { Elysia } from "elysia";

const body = JSON.parse(process.argv[2] ?? "{}");
const app = new Elysia().get("/v1/project", () => body).listen({ hostname: "127.0.0.1", port: 0 });
console.log(`http://127.0.0.1:${app.server?.port}`);
