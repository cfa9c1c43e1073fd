"""Print what to put on `PYTHONPATH` before vLLM is started next to a broken torchvision.

PYTHONPATH=$(python -m engine.vllm_plugin) python -m vllm.entrypoints.openai.api_server ...
"""

from engine.vllm_plugin.torchvision_fix import SITE_HOOK

print(SITE_HOOK)
