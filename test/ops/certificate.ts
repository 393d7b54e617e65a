import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { $ } from "bun";

export type CertificateFiles = { cert: string; key: string };
/** The files of a certificate and of its authority. */
export type IssuedCertificate = CertificateFiles & { ca: string };

/** Makes a self-signed certificate for this machine and one of its addresses, with openssl. */
export async function makeCertificate(folder: string, name: string, address = "127.0.0.1"): Promise<CertificateFiles> {
  const files = { cert: join(folder, `${name}.pem`), key: join(folder, `${name}.key`) };
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const alternatives = `subjectAltName=DNS:localhost,IP:127.0.0.1,IP:${address}`;
  const names = ["-subj", `/CN=${name}`, "-addext", alternatives, "-days", "2"];
  const made = Bun.spawn(["openssl", "req", "-x509", ...curve, ...names, "-keyout", files.key, "-out", files.cert], {
    stderr: "pipe",
  });
  if ((await made.exited) !== 0) throw new Error(await new Response(made.stderr).text());
  return files;
}

const EXPIRED = `[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:localhost,IP:127.0.0.1
basicConstraints = CA:TRUE
`;

/** Makes an expired certificate that is otherwise valid. */
export async function makeExpiredCertificate(folder: string): Promise<CertificateFiles> {
  const cwd = join(folder, "expired");
  mkdirSync(cwd);
  for (const [name, text] of Object.entries({ "ca.cnf": EXPIRED, "index.txt": "", serial: "01\n" })) {
    writeFileSync(join(cwd, name), text);
  }
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const span = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"];
  for (const command of [
    ["req", "-new", ...curve, "-subj", "/CN=expired", "-keyout", "own.key", "-out", "request.pem"],
    ["ca", "-batch", "-config", "ca.cnf", "-selfsign", "-notext", "-in", "request.pem", "-keyfile", "own.key"].concat(
      span,
      ["-out", "own.pem"],
    ),
  ]) {
    const made = Bun.spawn(["openssl", ...command], { cwd, stderr: "pipe" });
    if ((await made.exited) !== 0) throw new Error(await new Response(made.stderr).text());
  }
  return { cert: join(cwd, "own.pem"), key: join(cwd, "own.key") };
}

/** The name in the certificate that a new connection gets. */
export async function presentedName(url: string): Promise<string> {
  const client = Bun.spawn(["openssl", "s_client", "-connect", new URL(url).host, "-servername", "localhost"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  const text = await new Response(client.stdout).text();
  return /^subject=.*CN ?= ?(\S+)$/m.exec(text)?.[1] ?? `no subject in ${text}`;
}

/** Makes a certificate for these names, with an authority of its own. */
export async function issue(folder: string, names: string[]): Promise<IssuedCertificate> {
  const [cert = "", key = "", ca = "", caKey = ""] = ["cert", "key", "ca", "ca-key"].map((name) =>
    join(folder, `${name}.pem`),
  );
  const fresh = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  await $`openssl req ${fresh} -subj "/CN=House" -keyout ${caKey} -out ${ca}`.quiet();
  const alternatives = `subjectAltName=${names.map((name) => `DNS:${name}`).join(",")}`;
  const leaf = ["-addext", alternatives, "-addext", "basicConstraints=CA:FALSE"];
  await $`openssl req ${fresh} -CA ${ca} -CAkey ${caKey} -subj ${`/CN=${names[0]}`} ${leaf} -keyout ${key} -out ${cert}`.quiet();
  return { cert, key, ca };
}
