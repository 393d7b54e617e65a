/**
 * Runs an example: `bin/bun web/examples/serve.ts video-call-react`, then open the printed address in two tabs. It starts
 * its own Stoa server and the small backend that every example needs, because the API key must stay on a backend.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startStoa } from "stoa";
import { Stoa } from "stoa/server";

export type Example = { url: string; stoa: Stoa; stop(): Promise<void> };

export async function serveExample(name: string, port = 0): Promise<Example> {
  const folder = join(import.meta.dir, name);
  const page = ["page.tsx", "page.ts"].map((file) => join(folder, file)).find(existsSync);
  if (!page) throw new Error(`there is no example ${name} with a page`);
  const server = await startStoa();
  const stoa = new Stoa(server);
  const script = await bundled(page);
  const site = Bun.serve({
    port,
    hostname: "localhost",
    routes: {
      "/": () =>
        html(
          `<script type="module" src="${server.url}/embed.js"></script><script type="module" src="/page.js"></script>`,
          name,
        ),
      "/page.js": () => new Response(script, { headers: { "content-type": "text/javascript" } }),
      "/favicon.ico": () => new Response(null, { status: 204 }),
      ...backend(stoa),
    },
  });
  return {
    url: site.url.origin,
    stoa,
    async stop() {
      await site.stop(true);
      await server.stop();
    },
  };
}

/** In your application the user comes from your own sign-in; here the page names any user it likes. */
function backend(stoa: Stoa) {
  const queryOf = ({ url }: Request) => Object.fromEntries(new URL(url).searchParams) as Record<string, string>;
  return {
    "/api/join": async (request: Request) => {
      const { room = "demo", user = "guest", listen } = queryOf(request);
      return Response.json(await stoa.mintJoin({ room, user, permissions: { publish: listen === undefined } }));
    },
    "/api/speak": async (request: Request) => {
      const { room = "", user = "" } = queryOf(request);
      await stoa.rooms.updateParticipant(room, user, { permissions: { publish: true, publishAudio: true } });
      return Response.json({});
    },
    "/api/live": async (request: Request) => {
      const { user = "guest", host } = queryOf(request);
      const [known] = await stoa.liveStreams.list({ status: "LIVE" });
      const stream = known ?? (await stoa.liveStreams.create({ title: "Shop", hostIdentity: user }));
      if (!known) await stoa.liveStreams.start(stream.id);
      if (host !== undefined) return Response.json(await stoa.liveStreams.addHost(stream.id, { identity: user }));
      return Response.json(await stoa.liveStreams.mintViewerToken(stream.id, { identity: user }));
    },
  };
}

const STYLE = `
:root { color-scheme: light dark; font: 16px / 1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
video { border-radius: 8px; margin: 0 8px 8px 0; }
button, input { font: inherit; padding: 0.4em 0.9em; margin: 0 8px 8px 0; }
`;

async function bundled(page: string): Promise<string> {
  const define = { "process.env.NODE_ENV": '"development"' };
  const { outputs } = await Bun.build({ entrypoints: [page], target: "browser", format: "esm", define });
  return (await outputs[0]?.text()) ?? "";
}

function html(scripts: string, title: string): Response {
  const page = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>${STYLE}</style><body>${scripts}<main id="app"></main></body></html>`;
  return new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } });
}

if (import.meta.main) {
  const [name = "video-call-react"] = process.argv.slice(2);
  const { url } = await serveExample(name, 3000);
  console.log(`${name}: ${url}/?user=anna and ${url}/?user=ben`);
}
