import { mkdirSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { Marked, type Tokens } from "marked";
import { type Guide, readGuides, slugOf } from "../src/cli/manual/guides.ts";

type Assets = { style: string; script: string; images: Map<string, string> };
/** An entry of the search index, one per chapter. */
type Entry = { url: string; page: string; heading: string; text: string; code: string };

/**
 * Renders every guide in `web/docs` as a page, with a search index, the guides as text and `llms.txt`, which lists them
 * for language models. The pages load nothing from other hosts.
 */
export async function buildDocs(root: string, outdir: string): Promise<void> {
  const folder = join(root, "web/docs");
  const guides = readGuides(folder);
  const assets = await bundle(folder, outdir);
  mkdirSync(join(outdir, "docs"), { recursive: true });
  const entries: Entry[] = [];
  for (const guide of guides) {
    const { html, chapters } = render(guide, assets.images);
    entries.push(...chapters);
    await Bun.write(join(outdir, `docs/${guide.name}.html`), pageOf(guide, guides, html, chapters, assets));
    await Bun.write(join(outdir, `docs/${guide.name}.md`), `${guide.text}\n`);
  }
  await Bun.write(join(outdir, "docs/llms.txt"), llmsTxt(guides));
  await Bun.write(join(outdir, "docs/search.json"), JSON.stringify(entries));
}

/** See https://llmstxt.org: a title, a summary and a list of links with descriptions. */
function llmsTxt(guides: Guide[]): string {
  const [start] = guides;
  const links = guides.map(({ name, title, summary }) => `- [${title}](/docs/${name}.md): ${sentenceOf(summary)}`);
  return `# Stoa

> ${sentenceOf(start?.summary ?? "")}

## Guides

${links.join("\n")}

## Reference

- [HTTP API](/openapi.json): every route, as OpenAPI
- [Sockets](/asyncapi.json): the frames of both WebSockets, as AsyncAPI
- [Types of the browser SDK](/sdk.d.ts): the declarations of \`stoa/client\`
`;
}

/** The first sentence, without links and markup. */
function sentenceOf(summary: string): string {
  const text = summary.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll("**", "");
  return /^.+?[.:](?=\s|$)/.exec(text)?.[0].replace(/:$/, ".") ?? text;
}

async function bundle(folder: string, outdir: string): Promise<Assets> {
  const images = readdirSync(folder).filter((file) => /\.(png|jpg|webp|svg)$/.test(file));
  const { outputs } = await Bun.build({
    entrypoints: [join(folder, "page/page.css"), join(folder, "page/page.ts")],
    outdir,
    target: "browser",
    minify: true,
    naming: "assets/docs-[name]-[hash].[ext]",
  });
  const urlOf = (ending: string) =>
    `/assets/${basename(outputs.find(({ path }) => path.endsWith(ending))?.path ?? "")}`;
  const served = new Map<string, string>();
  for (const image of images) {
    const bytes = await Bun.file(join(folder, image)).bytes();
    const name = image.replace(/\.(\w+)$/, `-${Bun.hash(bytes).toString(36)}.$1`);
    await Bun.write(join(outdir, "assets", name), bytes);
    served.set(image, `/assets/${name}`);
  }
  return { style: urlOf(".css"), script: urlOf(".js"), images: served };
}

function render({ name, title, text }: Guide, images: Map<string, string>): { html: string; chapters: Entry[] } {
  const start: Entry = { url: urlOf(name), page: title, heading: title, text: "", code: "" };
  const chapters: Entry[] = [start];
  const marked = new Marked({ gfm: true });
  marked.use({
    // The order of the text assigns each paragraph to the heading above it.
    walkTokens: (token) => {
      const current = chapters.at(-1) ?? start;
      if (token.type === "heading" && token.depth > 1) {
        chapters.push({
          url: `${urlOf(name)}#${slugOf(plain(token.text))}`,
          page: title,
          heading: plain(token.text),
          text: "",
          code: "",
        });
      } else if (token.type === "code") current.code += ` ${token.text}`;
      // The items of a list are texts that have parts of their own.
      else if (token.type === "paragraph" || (token.type === "text" && "tokens" in token))
        current.text += ` ${words(token.text)}`;
      else if (token.type === "table") current.text += ` ${words(token.raw.replace(/[|\s]+|-{3,}/g, " "))}`;
    },
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        const inner = this.parser.parseInline(tokens);
        const slug = slugOf(plain(text));
        return depth === 1
          ? `<h1>${inner}</h1>\n`
          : `<h${depth} id="${slug}"><a class="anchor" href="#${slug}">${inner}</a></h${depth}>\n`;
      },
      code({ text, lang = "" }: Tokens.Code) {
        const [language = ""] = lang.split(" ");
        return `<div class="code" data-language="${escapeHtml(language)}"><pre tabindex="0"><code>${escapeHtml(text)}</code></pre></div>\n`;
      },
      table(token: Tokens.Table) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("");
        const rows = token.rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("\n");
        return `<div class="table" tabindex="0"><table><thead><tr>${cells(token.header, "th")}</tr></thead><tbody>\n${rows}\n</tbody></table></div>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        return `<a href="${escapeHtml(linkOf(href))}">${this.parser.parseInline(tokens)}</a>`;
      },
      image({ href, text }: Tokens.Image) {
        return `<img src="${images.get(href) ?? escapeHtml(href)}" alt="${escapeHtml(text)}" loading="lazy" />`;
      },
    },
  });
  return { html: marked.parse(text, { async: false }), chapters };
}

const urlOf = (name: string) => (name === "start" ? "/docs" : `/docs/${name}`);

/** Guides link to each other as files, so that the links also work in the repository. */
function linkOf(href: string): string {
  const [, name, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return name === undefined ? href : `${urlOf(name)}${anchor}`;
}

/** The text that a reader sees of a link or of emphasis. */
const words = (text: string) => plain(text.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1"));

const plain = (text: string) => text.replace(/[`*]/g, "");

function pageOf(guide: Guide, guides: Guide[], html: string, chapters: Entry[], { style, script }: Assets): string {
  const current = (name: string) => (name === guide.name ? ' aria-current="page"' : "");
  const links = guides.map(
    ({ name, title }) => `<li><a href="${urlOf(name)}"${current(name)}>${escapeHtml(title)}</a></li>`,
  );
  const contents = chapters
    .filter(({ url }) => url.includes("#") && html.includes(`<h2 id="${url.split("#")[1]}"`))
    .map(({ url, heading }) => `<li><a href="#${url.split("#")[1]}">${escapeHtml(heading)}</a></li>`);
  const previous = guides[guides.indexOf(guide) - 1];
  const next = guides[guides.indexOf(guide) + 1];
  const turn = (rel: "prev" | "next", label: string, to: Guide | undefined) =>
    to
      ? `<a class="${rel}" rel="${rel}" href="${urlOf(to.name)}"><small>${label}</small> ${escapeHtml(to.title)}</a>`
      : "";
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="description" content="${escapeHtml(plain(guide.summary))}" />
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="${style}" />
    <script type="module" src="${script}"></script>
    <title>${escapeHtml(guide.title)} · Stoa</title>
  </head>
  <body>
    <a class="skip" href="#content">Skip to content</a>
    <header class="head">
      <a class="brand" href="/docs">Stoa</a>
      <form class="search" role="search">
        <input class="input" type="search" placeholder="Search the guides" aria-label="Search the guides" autocomplete="off" aria-controls="found" aria-expanded="false" />
        <ul id="found" class="found" hidden></ul>
      </form>
      <nav class="links"><a href="/docs/api">API reference</a> <a href="/">Dashboard</a></nav>
    </header>
    <div class="columns">
      <nav class="guides" aria-label="Guides">
        <details open>
          <summary>Guides</summary>
          <ul>
            ${links.join("\n            ")}
            <li><a href="/docs/api">API reference</a></li>
          </ul>
        </details>
      </nav>
      <main id="content">
${html}
        <nav class="turn" aria-label="Previous and next guide">${turn("prev", "Previous", previous)}${turn("next", "Next", next)}</nav>
      </main>
      <nav class="contents" aria-label="On this page"><ul>${contents.join("")}</ul></nav>
    </div>
  </body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
