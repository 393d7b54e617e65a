import type { Runtime } from "../../kernel/runtime.ts";
import type { Users } from "../accounts/accounts.ts";
import { apiKeyService } from "./api-key.service.ts";
import { invitationService } from "./invitation.service.ts";
import { memberService } from "./member.service.ts";
import { projectService } from "./project.service.ts";

/** Projects, their members, invitations and API keys. */
export function createProjects(runtime: Runtime, users: Users) {
  const members = memberService(runtime);
  const projects = projectService(runtime, members);
  return {
    projects,
    members,
    invitations: invitationService(runtime, { ...users, members, projects }),
    apiKeys: apiKeyService(runtime),
  };
}
