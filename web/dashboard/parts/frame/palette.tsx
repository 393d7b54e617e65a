import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { environment, projectPath } from "../../address.ts";
import { api, request } from "../../api.ts";
import { may, openProject } from "../../project.ts";
import { user } from "../../session.ts";
import { Dialog } from "../dialog.tsx";
import { PAGE_GROUPS } from "./nav.tsx";

type Entry = { kind: string; title: string; hint?: string; href: string };

const MAX_SHOWN = 12;
/** The number of records of each kind that are searched: as many as one request returns. */
const LIMIT = 200;

/** Opens with Ctrl-K or the button in the header, and leads to pages, rooms, calls, live streams and people. */
export function Palette() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      // Browsers use these keys for their own search.
      event.preventDefault();
      setOpen((shown) => !shown);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <>
      <button type="button" class="button quiet find" aria-keyshortcuts="Control+K" onClick={() => setOpen(true)}>
        Find <kbd>Ctrl K</kbd>
      </button>
      {open && <Search onClose={() => setOpen(false)} />}
    </>
  );
}

function Search({ onClose }: { onClose: () => void }) {
  const { route } = useLocation();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [records, setRecords] = useState<Entry[]>([]);
  const list = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLInputElement>(null);
  const project = openProject.value;
  useEffect(() => {
    box.current?.focus();
    if (project === null) return;
    let closed = false;
    for (const load of recordsOf(project.id)) {
      // Records that the role may not see are left out.
      load.then(
        (entries) => !closed && setRecords((known) => [...known, ...entries]),
        () => {},
      );
    }
    return () => {
      closed = true;
    };
  }, []);
  const found = matching([...pages(), ...records, ...lookUps(text)], text);
  const current = Math.min(chosen, found.length - 1);
  useEffect(() => {
    list.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current]);

  const go = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    route(entry.href);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter") go(found[current]);
    else if (event.key === "ArrowDown") setChosen((current + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setChosen((current - 1 + found.length) % Math.max(1, found.length));
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        class="input"
        ref={box}
        role="combobox"
        aria-label="Find a page, room, call or person"
        aria-expanded={found.length > 0}
        aria-controls="palette-results"
        aria-activedescendant={found.length > 0 ? `palette-${current}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        placeholder="Page, room, call, person or id"
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={pressed}
      />
      <div id="palette-results" class="palette" role="listbox" aria-label="Results" tabIndex={-1} ref={list}>
        {found.map((entry, index) => (
          <div
            key={`${entry.kind} ${entry.href}`}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === current}
            onClick={() => go(entry)}
            onKeyDown={pressed}
          >
            <span>{entry.title}</span>
            <span class="quiet small">{entry.hint ? `${entry.kind} · ${entry.hint}` : entry.kind}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p class="quiet">Nothing matches “{text}”.</p>}
    </Dialog>
  );
}

/** The pages that the navigation shows. */
function pages(): Entry[] {
  const project = openProject.value;
  const page = (title: string, href: string): Entry => ({ kind: "Page", title, href });
  const own = PAGE_GROUPS.flatMap(([, entries]) => entries)
    .filter(([, , needs]) => project && (needs === undefined || may(needs)))
    .map(([name, title]) => page(title, projectPath(project?.id ?? "", name)));
  return [
    ...own,
    page("Projects", "/"),
    ...(user.value?.isOperator ? [page("Servers", "/servers"), page("Cluster", "/cluster")] : []),
    page("Your account", "/account"),
  ];
}

/** The newest records of the project in the selected environment. */
function recordsOf(projectId: string): Promise<Entry[]>[] {
  const at = api.v1.projects({ projectId });
  const query = { environment: environment.value, limit: LIMIT };
  const path = (page: string) => projectPath(projectId, page);
  const date = (at: string) => new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const streams = request(at["live-streams"].get({ query }));
  // The room of a live stream is named after its id, and shown by its title.
  const titles = streams.then(
    (list) => new Map(list.map(({ id, title }) => [id, title])),
    () => new Map<string, string>(),
  );
  return [
    streams.then((list) =>
      list.map(({ id, title }) => ({ kind: "Live stream", title, href: path(`live-streams/${id}`) })),
    ),
    request(at.rooms.get({ query: { ...query, status: "ACTIVE" } })).then(async (rooms) => {
      const ofStreams = await titles;
      return rooms
        .filter(({ name }) => !ofStreams.has(name))
        .map(({ id, name }) => ({ kind: "Room", title: name, href: path(`rooms/${id}`) }));
    }),
    request(at.calls.get({ query })).then(async (calls) => {
      const ofStreams = await titles;
      return calls.map(({ id, roomName, startedAt }) => ({
        kind: "Call",
        title: `Call in ${ofStreams.get(roomName) ?? roomName}`,
        hint: date(startedAt),
        href: path(`calls/${id}`),
      }));
    }),
    request(at.connections.get({ query })).then((connections) => {
      // The first is the newest connection of each person.
      const people = new Map(connections.toReversed().map((one) => [one.participantIdentity, one.id]));
      return [...people].map(([title, id]) => ({
        kind: "Person",
        title,
        href: may("people:read") ? personPath(path, title) : path(`connections/${id}`),
      }));
    }),
  ];
}

const personPath = (path: (page: string) => string, identity: string) =>
  path(`people?userId=${encodeURIComponent(identity)}`);

const PAGES_OF_IDS: [id: RegExp, kind: string, page: string][] = [
  [/^call_\w{24}$/, "Call", "calls"],
  [/^rec_\w{24}$/, "Recording", "recordings"],
  [/^stream_\w{24}$/, "Live stream", "live-streams"],
  [/^conv_\w{24}$/, "Conversation", "chat/conversations"],
  [/^[0-9a-f-]{36}$/, "Room", "rooms"],
];

/** An id leads to its page, and any other text to the person of that name. */
function lookUps(text: string): Entry[] {
  const project = openProject.value;
  const id = text.trim();
  if (project === null || id === "") return [];
  const path = (page: string) => projectPath(project.id, page);
  const entries = PAGES_OF_IDS.filter(([pattern]) => pattern.test(id)).map(([, kind, page]) => ({
    kind,
    title: id,
    href: path(`${page}/${id}`),
  }));
  return entries.length > 0 || !may("people:read")
    ? entries
    : [{ kind: "Person", title: `Look up “${id}” in personal data`, href: personPath(path, id) }];
}

/** Every word has to occur; titles that begin with the text come first. */
function matching(entries: Entry[], text: string): Entry[] {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/);
  const score = ({ title }: Entry) => (title.toLowerCase().startsWith(wanted) ? 0 : 1);
  return entries
    .filter(({ title, kind, hint = "" }) => {
      const all = `${title} ${kind} ${hint}`.toLowerCase();
      return words.every((word) => all.includes(word));
    })
    .sort((a, b) => score(a) - score(b))
    .slice(0, MAX_SHOWN);
}
