import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Ajv from "ajv";
import manifest from "../../../package.json";
import { RELEASE } from "../../../src/kernel/version.ts";
import { ROOT } from "../../cli/stoa.ts";
import { buildBinary } from "./binary.ts";

type Component = {
  name: string;
  version: string;
  scope: string;
  hashes?: { alg: string; content: string }[];
  licenses: { expression?: string; license?: { id: string } }[];
  components?: Component[];
  "bom-ref": string;
};
type Sbom = {
  metadata: { component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

let folder = "";
let sbom: Sbom;
beforeAll(async () => {
  folder = dirname(await buildBinary());
  sbom = JSON.parse(readFileSync(join(folder, "stoa.cdx.json"), "utf8"));
}, 120_000);

const SCHEMAS = join(ROOT, "node_modules/@cyclonedx/cyclonedx-library/res/schema");
/** Schemas refer to each other by the names of their files. */
function schema(name: string) {
  const file = `${name}.SNAPSHOT.schema.json`;
  return { ...JSON.parse(readFileSync(join(SCHEMAS, file), "utf8")), $id: `http://cyclonedx.org/schema/${file}` };
}
const find = (name: string) => sbom.components.find((component) => component.name === name);

describe("the bill of materials of a build", () => {
  test("the bill of materials is valid CycloneDX 1.6", () => {
    const ajv = new Ajv({ strict: false, validateFormats: false, schemas: [schema("spdx"), schema("jsf-0.82")] });
    const isValid = ajv.compile(schema("bom-1.6"));
    isValid(sbom);
    expect(isValid.errors).toBeNull();
    expect(isValid({ ...sbom, bomFormat: "another" })).toBe(false);
  });

  test("the bill of materials has the digest of the binary, and is itself in the signed list of checksums", () => {
    const list = readFileSync(join(folder, "checksums.txt"), "utf8");
    const { version, components = [] } = sbom.metadata.component;
    expect(version).toStartWith(RELEASE);
    expect(list).toStartWith(`# stoa ${version}\n`);
    for (const { name, hashes } of components) expect(list).toContain(`${hashes?.[0]?.content}  ${name}\n`);
    const digest = new Bun.CryptoHasher("sha256").update(readFileSync(join(folder, "stoa.cdx.json"))).digest("hex");
    expect(list).toContain(`${digest}  stoa.cdx.json\n`);
  });

  test("has every package of the lock file with version, licence and digest", () => {
    const lock = Bun.JSONC.parse(readFileSync(join(ROOT, "bun.lock"), "utf8")) as {
      packages: Record<string, string[]>;
    };
    const refs = new Set(sbom.components.map((component) => component["bom-ref"]));
    for (const [id = ""] of Object.values(lock.packages)) expect(refs).toContain(`pkg:npm/${id.replace(/^@/, "%40")}`);
    for (const { name, version, licenses, hashes } of sbom.components) {
      expect([name, version]).toEqual([name, expect.stringMatching(/\d/)]);
      expect([name, licenses[0]?.expression ?? licenses[0]?.license?.id]).toEqual([name, expect.stringMatching(/\w/)]);
      expect([name, hashes?.[0]?.content]).toEqual([name, expect.stringMatching(/^[0-9a-f]{64}([0-9a-f]{64})?$/)]);
    }
  });

  test("distinguishes packages in the binary from those that only build and test it", () => {
    for (const name of ["elysia", "werift", "preact", "@scalar/api-reference", "@noble/curves", "bun"])
      expect([name, find(name)?.scope]).toEqual([name, "required"]);
    for (const name of ["playwright-core", "@biomejs/biome", "typescript"])
      expect([name, find(name)?.scope]).toEqual([name, "excluded"]);
  });

  test("names the parts of Bun and of packages that are compiled into it", () => {
    const parts = (name: string) => find(name)?.components?.map((component) => component.name) ?? [];
    expect(parts("bun")).toEqual(expect.arrayContaining(["SQLite", "BoringSSL", "JavaScriptCore (WebKit)"]));
    expect(parts("libopus-wasm")).toEqual(["libopus"]);
    // A part that a new version of Bun brings has a name of the table, or is no library.
    const known = ["bun", "modules", "napi", "node", "openssl", "typescript", "unicode", "uv", "v8", "zig"];
    expect(Object.keys(process.versions).filter((name) => !known.includes(name))).toHaveLength(parts("bun").length);
  });

  test("lists the dependencies of each package, and every reference exists", () => {
    const refs = new Set([...sbom.components, sbom.metadata.component].map((component) => component["bom-ref"]));
    for (const { ref, dependsOn } of sbom.dependencies)
      for (const one of [ref, ...dependsOn]) expect(refs).toContain(one);
    const own = sbom.dependencies.find(({ ref }) => ref === sbom.metadata.component["bom-ref"]);
    for (const [name, version] of Object.entries(manifest.dependencies))
      expect(own?.dependsOn).toContain(`pkg:npm/${name.replace(/^@/, "%40")}@${version}`);
  });
});
