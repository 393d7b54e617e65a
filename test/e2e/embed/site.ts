import { join } from "node:path";
import type { Page } from "playwright-core";

const ROOT = join(import.meta.dir, "../../..");

/** The Content-Security-Policy from the guide. */
export function strictPolicy(server: string): string {
  const socket = server.replace(/^http/, "ws");
  return [
    "default-src 'none'",
    `script-src 'self' ${server}`,
    `connect-src ${server} ${socket}`,
    "style-src 'self'",
    "img-src 'self'",
    "media-src blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

export type Site = { url: string; close(): void };

/** Serves pages by path on another origin, each with the same policy. */
export function serveSite(pages: Record<string, string>, policy: string): Site {
  const site = Bun.serve({
    port: 0,
    hostname: "localhost",
    fetch: ({ url }) => {
      const { pathname } = new URL(url);
      const body = pages[pathname];
      if (body === undefined) return new Response(null, { status: pathname === "/favicon.ico" ? 204 : 404 });
      const type = pathname.endsWith(".js") ? "text/javascript" : "text/html; charset=utf-8";
      return new Response(body, { headers: { "content-type": type, "content-security-policy": policy } });
    },
  });
  return { url: site.url.origin, close: () => void site.stop(true) };
}

/** Bundles a page's script into one file. */
export async function bundled(source: string, build: "development" | "production" = "development"): Promise<string> {
  const entry = join(ROOT, "dist", `entry-${crypto.randomUUID()}.tsx`);
  await Bun.write(entry, source);
  try {
    const define = { "process.env.NODE_ENV": JSON.stringify(build) };
    const { outputs } = await Bun.build({ entrypoints: [entry], target: "browser", format: "esm", define });
    return (await outputs[0]?.text()) ?? "";
  } finally {
    await Bun.file(entry).delete();
  }
}

/** The accessibility violations with the rule and the element of each. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(await Bun.file(Bun.resolveSync("axe-core/axe.min.js", ROOT)).text());
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
    const { violations } = await axe.run();
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
    );
  });
}

/** Saves a screenshot for people to review. */
export function screenshotOf(page: Page, name: string): Promise<Buffer> {
  return page.screenshot({ path: join(ROOT, ".screenshots/embed", `${name}.png`) });
}
