import { useLocation } from "preact-iso";
import type { Permission } from "../../../../src/protocol/permissions.ts";
import { projectPath } from "../../address.ts";
import { may, openProject } from "../../project.ts";
import { user } from "../../session.ts";

type Entry = [page: string, title: string, needs?: Permission];

export const PAGE_GROUPS: [title: string, entries: Entry[]][] = [
  [
    "Build",
    [
      ["", "Overview"],
      ["rooms", "Rooms"],
      ["live-streams", "Live streams"],
      ["chat", "Chat"],
      ["recordings", "Recordings"],
    ],
  ],
  [
    "Observe",
    [
      ["calls", "Calls"],
      ["connections", "Connections"],
      ["errors", "Errors"],
      ["diagnostics", "Diagnostics"],
      ["usage", "Usage"],
    ],
  ],
  [
    "Integrate",
    [
      ["start", "Get started"],
      ["api-keys", "API keys"],
      ["webhooks", "Webhooks"],
    ],
  ],
  [
    "Project",
    [
      ["members", "Members"],
      ["people", "Personal data", "people:read"],
      ["audit-log", "Audit log", "audit:read"],
      ["settings", "Settings"],
    ],
  ],
];

/** Links to the project's pages that the role may see, and to those of the installation. */
export function Nav({ open, onGo }: { open: boolean; onGo: () => void }) {
  const { path } = useLocation();
  const project = openProject.value;
  const link = (href: string, title: string, exact = false) => (
    <li key={href}>
      <a href={href} onClick={onGo} aria-current={(exact ? path === href : under(path, href)) ? "page" : undefined}>
        {title}
      </a>
    </li>
  );
  return (
    <nav id="nav" class={open ? "side open" : "side"} aria-label="Pages">
      {project &&
        PAGE_GROUPS.map(([group, entries]) => (
          <section key={group}>
            <h2>{group}</h2>
            <ul>
              {entries
                .filter(([, , needs]) => needs === undefined || may(needs))
                .map(([page, title]) => link(projectPath(project.id, page), title, page === ""))}
            </ul>
          </section>
        ))}
      <section>
        <h2>Installation</h2>
        <ul>
          {link("/", "Projects", true)}
          {user.value?.isOperator && link("/servers", "Servers")}
          {user.value?.isOperator && link("/cluster", "Cluster")}
          {link("/account", "Your account")}
        </ul>
      </section>
    </nav>
  );
}

function under(path: string, href: string): boolean {
  return path === href || path.startsWith(`${href}/`);
}
