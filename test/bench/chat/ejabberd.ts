import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { librariesOf, unpackDebian } from "../harness/debian.ts";
import { answers, type Backend, type Talker } from "./backend.ts";
import { WireClient } from "./wire.ts";

const FRAMING = 'xmlns="urn:ietf:params:xml:ns:xmpp-framing" to="localhost" version="1.0"';
const CLIENT = 'xmlns="jabber:client"';

const settings = (port: number) => `
hosts: [localhost]
loglevel: error
listen:
  - { port: ${port}, ip: "127.0.0.1", module: ejabberd_http, request_handlers: { /ws: ejabberd_http_ws } }
auth_method: [anonymous]
anonymous_protocol: sasl_anon
allow_multiple_connections: true
modules:
  mod_muc:
    host: conference.localhost
    max_users: 5000
    history_size: 0
    default_room_options: { mam: true, persistent: true, presence_broadcast: [], max_users: 5000 }
  mod_mam: { default: always, db_type: mnesia }
`;

/** Multi-user chat with the message archive on. Its archive is written behind the answer, not before it. */
export async function ejabberd(): Promise<Backend> {
  const root = await unpackDebian("ejabberd", "usr/sbin/ejabberdctl");
  const dir = mkdtempSync(join(tmpdir(), "ejabberd-bench-"));
  mkdirSync(join(dir, "spool"));
  const port = freePort();
  writeFileSync(join(dir, "ejabberd.yml"), settings(port));
  const erlang = join(root, "usr/lib/erlang");
  const entry = (folder: string, prefix: string) =>
    join(folder, readdirSync(folder).find((name) => name.startsWith(prefix)) ?? "");
  const erts = join(entry(erlang, "erts-"), "bin");
  const libraries = librariesOf(root);
  const code = join(entry(libraries, "ejabberd-"), "ebin");
  const child = Bun.spawn(
    [
      join(erts, "erlexec"),
      "-noinput",
      "-pa",
      code,
      "-mnesia",
      "dir",
      `"${join(dir, "spool")}"`,
      "-s",
      "ejabberd",
      "+K",
      "true",
    ],
    {
      cwd: dir,
      env: {
        PATH: process.env.PATH,
        HOME: dir,
        ROOTDIR: erlang,
        BINDIR: erts,
        EMU: "beam",
        PROGNAME: "erl",
        LD_LIBRARY_PATH: libraries,
        EJABBERD_CONFIG_PATH: join(dir, "ejabberd.yml"),
        EJABBERD_LOG_PATH: join(dir, "ejabberd.log"),
      },
      stdout: "ignore",
      stderr: "ignore",
    },
  );
  await listening(port);

  return {
    name: "ejabberd",
    durable: false,
    pid: child.pid,
    prepare: () => Promise.resolve(),
    connect: (userId, room) => talkerOf(port, userId, room),
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function talkerOf(port: number, userId: string, room: string): Promise<Talker> {
  const wire = await WireClient.connect(`http://127.0.0.1:${port}/ws`, "xmpp");
  const { wait, arrived } = answers();
  const address = `${room}@conference.localhost`;
  let next = 0;
  const talker: Talker = {
    wire,
    onMessage: () => {},
    send(text) {
      const id = `${userId}-${++next}`;
      const answered = wait(id);
      wire.send(`<message ${CLIENT} to="${address}" type="groupchat" id="${id}"><body>${text}</body></message>`);
      return answered;
    },
  };
  let authenticated = false;
  const joined = wait("joined");
  wire.onText = (text) => {
    if (text.startsWith("<message")) {
      talker.onMessage(text);
      // The room's copy of one's own message is its acknowledgement.
      if (text.includes(`/${userId}'`)) arrived(/ id='([^']+)'/.exec(text)?.[1] ?? "");
    } else if (text.startsWith("<stream:features")) {
      wire.send(
        authenticated
          ? `<iq ${CLIENT} type="set" id="bind"><bind xmlns="urn:ietf:params:xml:ns:xmpp-bind"/></iq>`
          : '<auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="ANONYMOUS"/>',
      );
    } else if (text.startsWith("<success")) {
      authenticated = true;
      wire.send(`<open ${FRAMING}/>`);
    } else if (text.startsWith("<iq")) {
      const history = '<x xmlns="http://jabber.org/protocol/muc"><history maxstanzas="0"/></x>';
      wire.send(`<presence ${CLIENT} to="${address}/${userId}">${history}</presence>`);
    } else if (text.includes("code='110'")) arrived("joined");
  };
  wire.send(`<open ${FRAMING}/>`);
  await joined;
  return talker;
}

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

async function listening(port: number): Promise<void> {
  for (let i = 0; i < 300; i += 1) {
    if (await fetch(`http://127.0.0.1:${port}/`).then(Boolean, () => false)) return;
    await Bun.sleep(100);
  }
  throw new Error("ejabberd did not start");
}
